import fc from 'fast-check';
import { expect, it } from 'vitest';
import { PassingMap } from '../../shared/runtime/passing-map.ts';
import { runs } from '../support/base/runs.ts';

const change = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant('set' as const), key: fc.nat(300), value: fc.nat() }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('delete' as const), key: fc.nat(300) }) },
);

it('a map whose members come and go behaves like a Map', () => {
  let sets = 0;
  fc.assert(
    fc.property(fc.array(change, { maxLength: 1_000, size: 'max' }), (changes) => {
      const passing = new PassingMap<number, number>();
      const plain = new Map<number, number>();
      for (const each of changes) {
        if (each.kind === 'set') {
          sets += 1;
          passing.set(each.key, each.value);
          plain.set(each.key, each.value);
        } else {
          expect(passing.delete(each.key)).toBe(plain.delete(each.key));
        }
        expect([passing.size, passing.has(each.key), passing.get(each.key)]).toEqual([
          plain.size,
          plain.has(each.key),
          plain.get(each.key),
        ]);
      }
      for (let key = 0; key <= 300; key++) expect(passing.get(key)).toBe(plain.get(key));
    }),
    { numRuns: runs({ short: 30, long: 3_000 }) },
  );
  // Often enough for it to be made anew many times.
  expect(sets).toBeGreaterThan(2_000);
});
