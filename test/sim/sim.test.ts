import { beforeAll, describe, expect, it } from 'vitest';
import { failedSeeds } from './failed-seeds.ts';
import { mutantOf } from './mutants.ts';
import { explained, parsePlaces, renderPlaces, shrink } from './shrink.ts';
import { findViolation, loadSimulation, type Simulation, tracesOn } from './simulation.ts';
import { mustBeReached, totals } from './totals.ts';

let simulation: Simulation;

beforeAll(async () => {
  simulation = await loadSimulation();
});

describe('the simulation', () => {
  it('finds nothing that is not as promised', async () => {
    const all = totals();
    for (const { seed } of failedSeeds) expect(await explained(simulation, seed)).toBeNull();
    for (let seed = 1n; seed <= 60n; seed++) {
      const result = await simulation.runSeed(seed);
      all.add(result);
      if (result.violation !== null) expect(await explained(simulation, seed)).toBeNull();
    }
    // The control: what is refused or never reached could not be wrong.
    expect(all.permitted).toBeGreaterThan(0.3);
    expect(all.permitted).toBeLessThan(0.95);
    for (const what of mustBeReached) expect(all.counts.get(what) ?? 0, what).toBeGreaterThan(0);
    for (const what of ['outcome taken', 'refund taken', 'elsewhere: PERMIT'])
      expect(all.counts.get(what) ?? 0, what).toBeGreaterThan(20);
  });

  it('has one trace for a seed, in another process too', async () => {
    const printed = tracesOn(process.execPath, simulation, 3).trim().split('\n');
    const traces: string[] = [];
    for (const seed of [1n, 2n, 3n]) traces.push((await simulation.runSeed(seed)).hash);
    expect(printed).toEqual(traces);
    expect(new Set(traces).size).toBe(3);
  });

  // One for each kind of promise. Lane long looks for all.
  it.each([
    'charges nothing',
    'returns no idle units',
    'charges the root of wallets twice',
    'keeps the units that an approval holds',
    'answers what was not written',
    'never tells that an epoch has ended',
    'forgets what an outcome came to',
    'records no hold',
  ])('finds: %s', async (name) => {
    const found = await findViolation(await loadSimulation(mutantOf(name)), { from: 1n, count: 200 });
    expect(found).not.toBeNull();
  });

  it('finds a fault that is planted, and needs less than its whole plan to show it', async () => {
    const planted = await loadSimulation(mutantOf('gives units back whose settlement may be committed'));
    const found = await findViolation(planted, { from: 1n, count: 600 });
    if (found === null) throw new Error('it was not found');
    const shrunk = await shrink(planted, found, 40);
    expect(shrunk.without.size).toBeGreaterThan(0);
    const again = await planted.runSeed(found.seed, { without: parsePlaces(renderPlaces(shrunk.without)) });
    expect(again.violation).toBe(shrunk.result.violation);
  });
});
