import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { DigestWords } from '../../shared/model/id-digest.ts';
import { DigestTable, digestValueMax } from '../../sidecar/replica/digest-table.ts';

/**
 * Few shards and few places in them, so that entries crowd, probe past the end of their shard and move up;
 * the rest tells digests apart.
 */
const digest = fc
  .tuple(fc.constantFrom(0, 1, 255), fc.constantFrom(0, 1, 2, 3, 7, -1), fc.constantFrom(0, 1), fc.nat(40))
  .map((words) => Int32Array.from(words) as DigestWords);
const value = fc.oneof(fc.integer({ min: 1, max: 9 }), fc.constant(digestValueMax));

const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('set' as const), digest, value }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('remove' as const), digest }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('sweep' as const), slots: fc.nat(600), below: fc.nat(10) }),
  },
);

/** The reference: a map by text. */
class PlainTable {
  readonly #entries = new Map<string, { readonly words: DigestWords; readonly value: number }>();

  get size() {
    return this.#entries.size;
  }
  get(words: DigestWords): number {
    return this.#entries.get(words.join())?.value ?? 0;
  }
  set(words: DigestWords, value: number): void {
    if (value === 0) this.#entries.delete(words.join());
    else this.#entries.set(words.join(), { words, value });
  }
  get entries() {
    return [...this.#entries.values()];
  }
}

describe('a table of digests', () => {
  it('behaves like a Map under any sets, removals and sweeps', () => {
    fc.assert(
      fc.property(
        fc.array(step, { maxLength: 400 }),
        fc.array(digest, { maxLength: 20 }),
        fc.constantFrom(0, 1, 5_000),
        (steps, others, expected) => {
          const table = new DigestTable(expected);
          const plain = new PlainTable();
          for (const each of steps) {
            if (each.kind === 'sweep') {
              const before = plain.entries;
              table.sweep(each.slots, each.below);
              // Which of those that may go are gone depends on the place; nothing else may be.
              for (const { words, value: kept } of before) {
                if (kept < each.below && table.get(words, 0) === 0) plain.set(words, 0);
              }
            } else {
              const next = each.kind === 'set' ? each.value : 0;
              table.set(each.digest, 0, next);
              plain.set(each.digest, next);
            }
            expect(table.size).toBe(plain.size);
          }
          for (const { words, value: expected } of plain.entries) expect(table.get(words, 0)).toBe(expected);
          for (const words of others) expect(table.get(words, 0)).toBe(plain.get(words));
        },
      ),
      { numRuns: 300 },
    );
  });

  it('reads a digest in the middle of others', () => {
    const table = new DigestTable();
    const many = Int32Array.from([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]) as DigestWords;
    table.set(many, 4, 3);
    expect([0, 4, 8].map((at) => table.get(many, at))).toEqual([0, 3, 0]);
    expect(table.get(Int32Array.from([5, 6, 7, 8]) as DigestWords, 0)).toBe(3);
  });

  it('refuses a value that it cannot hold', () => {
    const table = new DigestTable();
    const words = new Int32Array(4) as DigestWords;
    for (const bad of [-1, 0.5, digestValueMax + 1, Number.NaN])
      expect(() => table.set(words, 0, bad)).toThrow('31 bits');
    expect(table.size).toBe(0);
  });
});
