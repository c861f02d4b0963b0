import { beforeAll, describe, expect, it } from 'vitest';
import { mutantOf } from '../sim/mutants.ts';
import { explained } from '../sim/shrink.ts';
import { loadSimulation, type Simulation } from '../sim/simulation.ts';
import { mustBeReached, totals } from '../sim/totals.ts';

/**
 * The quick form of `test/sim/sim.test.ts`: of its first seeds those that reach the most branches in a second
 * (`npm run sim -- --coverage`), and together all that a seed has to reach.
 */
const seeds = [46n, 30n, 40n, 57n, 49n, 44n, 69n, 20n, 38n, 5n];

let simulation: Simulation;
beforeAll(async () => {
  simulation = await loadSimulation();
});

describe('a few seeds of the simulation', () => {
  it('find nothing that is not as promised, and reach all that matters', async () => {
    const all = totals();
    for (const seed of seeds) {
      const result = await simulation.runSeed(seed);
      all.add(result);
      if (result.violation !== null) expect(await explained(simulation, seed)).toBeNull();
    }
    expect(all.permitted).toBeGreaterThan(0.2);
    for (const what of mustBeReached) expect(all.counts.get(what) ?? 0, what).toBeGreaterThan(0);
  });

  it('have one trace each', async () => {
    const traceOf = async (seed: bigint) => (await simulation.runSeed(seed)).hash;
    expect(await traceOf(30n)).toBe(await traceOf(30n));
    expect(await traceOf(46n)).not.toBe(await traceOf(30n));
  });

  it('find a planted fault', async () => {
    const { runSeed } = await loadSimulation(mutantOf('records no hold'));
    expect((await runSeed(30n)).violation).not.toBeNull();
  });
});
