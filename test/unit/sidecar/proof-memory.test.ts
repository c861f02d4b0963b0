import { describe, expect, it } from 'vitest';
import type { UnixMillis } from '../../../shared/model/time.ts';
import { settleLimits } from '../../../sidecar/settle/limits.ts';
import { ProofMemory } from '../../../sidecar/settle/proof-memory.ts';

const startMs = 1_800_000_000_000;
const at = (ms: number) => (startMs + ms) as UnixMillis;
/** DPoP: half a minute. */
const lifetimeMs = 30_000;

describe('the memory for proofs', () => {
  it('knows a proof again until it is over', () => {
    const memory = new ProofMemory();
    expect(memory.use('a', at(lifetimeMs), at(0))).toBe('first');
    for (const ms of [0, 1, lifetimeMs - 1, lifetimeMs])
      expect(memory.use('a', at(lifetimeMs), at(ms))).toBe('replayed');
    expect(memory.use('b', at(lifetimeMs), at(0))).toBe('first');
  });

  it('takes no more than its count, and has room again when proofs are over', () => {
    const memory = new ProofMemory(100);
    for (let i = 0; i < 100; i++) expect(memory.use(`p${i}`, at(lifetimeMs), at(0))).toBe('first');
    expect(memory.use('one more', at(lifetimeMs), at(1))).toBe('full');
    expect(memory.use('p7', at(lifetimeMs), at(1))).toBe('replayed');
    const laterMs = lifetimeMs + settleLimits.proofsKeptMs + 2_000;
    expect(memory.use('one more', at(laterMs + lifetimeMs), at(laterMs))).toBe('first');
    expect(memory.size).toBeLessThanOrEqual(100);
  });

  it('stays small under proofs without end', () => {
    const memory = new ProofMemory();
    let largest = 0;
    for (let i = 0; i < 50_000; i++) {
      const nowMs = i * 10;
      expect(memory.use(`p${i}`, at(nowMs + lifetimeMs), at(nowMs))).toBe('first');
      largest = Math.max(largest, memory.size);
    }
    // A hundred a second for a minute, and what the sweep has not reached yet.
    expect(largest).toBeLessThan(25_000);
  });

  it('takes none that it may have forgotten, when the clock is set back', () => {
    const memory = new ProofMemory();
    expect(memory.use('a', at(lifetimeMs), at(0))).toBe('first');
    const laterMs = 10 * 60_000;
    for (let i = 0; i < 1_000; i++) memory.use(`later ${i}`, at(laterMs + lifetimeMs), at(laterMs));
    expect(memory.use('a', at(lifetimeMs), at(0))).toBe('full');
    expect(memory.use('new', at(lifetimeMs), at(0))).toBe('full');
    // A little way back it has forgotten nothing.
    const backMs = laterMs - settleLimits.proofsKeptMs + lifetimeMs;
    expect(memory.use('little', at(backMs + lifetimeMs), at(backMs))).toBe('first');
    expect(memory.use('later 1', at(laterMs + lifetimeMs), at(backMs))).toBe('replayed');
  });
});
