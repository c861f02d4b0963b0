import type { Branded } from './brand.ts';

/** Money as an integer count of millionths of a US dollar. Never a fraction, never negative. */
export type MicroUsd = Branded<number, 'MicroUsd'>;

const microPerUsd = 1_000_000;

/**
 * The largest amount that a request or a limit may name (contract §5); 1e15 micro-USD is still an exact
 * integer.
 */
export const amountUsdMax = 1e9;

/** Relative, as contract §5 has it. */
const binaryNoise = 1e-9;

/**
 * Reads a JSON number of dollars: finite, >= 0, at most 1e9, at most 6 decimals (contract §5).
 * Returns null for everything else. `-0` is 0.
 */
export function parseUsd(amountUsd: unknown): MicroUsd | null {
  if (typeof amountUsd !== 'number' || !Number.isFinite(amountUsd)) return null;
  if (amountUsd < 0 || amountUsd > amountUsdMax) return null;
  const micro = Math.round(amountUsd * microPerUsd);
  // Rounding may only remove the noise of binary fractions (3 * 1.1): 0.1234567 is not a whole number of
  // micro-dollars.
  const isNoise = Math.abs(micro / microPerUsd - amountUsd) <= amountUsd * binaryNoise;
  return isNoise ? ((micro + 0) as MicroUsd) : null;
}

export const renderUsd = (amount: MicroUsd): number => amount / microPerUsd;

/** Reads a stored or transmitted integer of micro-USD; null for anything else. */
export const parseMicroUsd = (value: unknown): MicroUsd | null =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? (value as MicroUsd) : null;

/** Cents of a catalog price as micro-USD. */
export const microUsdFromCents = (cents: number): MicroUsd => (cents * 10_000) as MicroUsd;
