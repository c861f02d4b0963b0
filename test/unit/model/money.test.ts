import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type MicroUsd,
  microUsdFromCents,
  parseMicroUsd,
  parseUsd,
  renderUsd,
} from '../../../shared/model/money.ts';

describe('parseUsd', () => {
  it.each([
    [0, 0],
    [-0, 0],
    [0.000001, 1],
    [3 * 1.1, 3_300_000],
    [0.1 + 0.2, 300_000],
    [1e9, 1_000_000_000_000_000],
  ])('reads %d dollars as %d micro-dollars', (usd, micro) => {
    expect(parseUsd(usd)).toBe(micro);
    expect(Object.is(parseUsd(usd), -0)).toBe(false);
  });

  it.each([-1, 1e-7, 0.1234567, 1e9 + 1, Number.POSITIVE_INFINITY, Number.NaN, '5', null, true, [5]])(
    'refuses %s',
    (value) => {
      expect(parseUsd(value)).toBeNull();
    },
  );

  it('gives back what it read, for every amount of whole micro-dollars', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 1_000_000_000_000_000 }), (micro) => {
        expect(parseUsd(renderUsd(micro as MicroUsd))).toBe(micro);
      }),
    );
  });
});

describe('parseMicroUsd', () => {
  it('takes safe integers from zero on and nothing else', () => {
    expect(parseMicroUsd(7)).toBe(7);
    for (const value of [-1, 0.5, 2 ** 53, '7', null]) expect(parseMicroUsd(value)).toBeNull();
  });
});

it('counts a cent as 10,000 micro-dollars', () => {
  expect(microUsdFromCents(1)).toBe(parseUsd(0.01));
});
