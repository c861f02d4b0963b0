import { describe, expect, it } from 'vitest';
import { mutants } from './mutants.ts';
import { findViolation, loadSimulation } from './simulation.ts';

describe('the simulation, in full', () => {
  it('finds nothing in 10,000 seeds', async () => {
    const found = await findViolation(await loadSimulation(), { from: 1_000n, count: 10_000 });
    expect(found?.violation ?? null, `npm run sim -- --seed ${found?.seed}`).toBeNull();
  });

  it.each(mutants)('finds: $name', async (mutant) => {
    const found = await findViolation(await loadSimulation(mutant), { from: 1n, count: 2_000 });
    expect(found).not.toBeNull();
  });
});
