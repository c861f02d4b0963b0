import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { numberText } from '../../shared/crypto/number-text.ts';
import { runs } from '../support/base/runs.ts';

const prices = fc
  .oneof(
    fc.nat(1_000),
    fc.nat(100_000_000),
    fc.maxSafeNat().map((cents) => cents % 100_000_000_100),
  )
  .map((cents) => cents / 100);
/** The next number below or above a price, which is none. */
const besidePrices = fc.tuple(prices, fc.constantFrom(-1, 1)).map(([price, by]) => {
  const bits = new DataView(new ArrayBuffer(8));
  bits.setFloat64(0, price);
  bits.setBigInt64(0, bits.getBigInt64(0) + BigInt(price === 0 ? 1 : by));
  return bits.getFloat64(0);
});
const numbers = fc.double({ noNaN: true, noDefaultInfinity: true });

describe('numberText', () => {
  it.each([
    ...[0, -0, 0.01, 0.1, 0.07, 0.29, 0.99, 1.005, 1.1, 12.5, 19.99, -12.5, 1e-7, 5e-324],
    ...[999_999_999.99, 1_000_000_000.01, 123_456_789_012.34, 1e21, 2 ** 31, 2 ** 31 + 0.25, -(2 ** 31) - 1],
  ])('writes %d as the language does', (value) => {
    expect(numberText(value)).toBe(String(value));
  });

  it('tells prices apart that share a place, and finds one again', () => {
    // 40.96 apart, which is as many cents as there are places; and with the same cents and less beside them.
    for (const value of [12.5, 53.46, 12.5, 12.5, 12.5001, -12.5, 12.5]) {
      expect(numberText(value)).toBe(String(value));
    }
  });

  it('writes every number as the language does', () => {
    fc.assert(
      fc.property(fc.oneof(prices, besidePrices, numbers), (value) => {
        expect(numberText(value)).toBe(String(value));
      }),
      { numRuns: runs({ short: 5_000, long: 2_000_000 }) },
    );
  });
});
