import { describe, expect, it } from 'vitest';
import { newChain, sharedCacheReadNs, walk } from '../../../bench/harness/shared-cache.ts';

const lineBytes = 64;

describe('a chain of cache lines', () => {
  const lines = 1_000;
  const chain = newChain(lines * lineBytes);

  it('visits every line once and returns to the first', () => {
    const seen = new Set<number>();
    for (let at = 0; !seen.has(at); at = chain[at] ?? Number.NaN) seen.add(at);
    expect(seen.size).toBe(lines);
    expect([...seen].every((at) => (at * Int32Array.BYTES_PER_ELEMENT) % lineBytes === 0)).toBe(true);
    expect(walk(chain)).toBe(0);
  });

  it('hardly ever goes from a line to its neighbour', () => {
    const starts = Array.from({ length: lines }, (_, line) => line * 16);
    const toNeighbour = starts.filter((at) => Math.abs((chain[at] ?? 0) - at) === 16);
    expect(toNeighbour.length).toBeLessThan(20);
  });
});

describe('a read that only the shared cache can answer', () => {
  it('takes a time that a memory can have', () => {
    const readNs = sharedCacheReadNs();
    expect(readNs).toBeGreaterThan(1);
    expect(readNs).toBeLessThan(100_000);
  });
});
