import { isLossless, jsonLosses } from '../shared/crypto/json-losses.ts';
import { proxyLimits } from './limits.ts';

/**
 * Why two readers may read this JSON differently, as a sentence; null where they cannot. `text` is valid
 * JSON.
 *
 * Of two members with one name some readers take the first. A number that is no double is rounded by some
 * readers and not by others. A member `__proto__` changes the object in JavaScript that copies it. A reader
 * in C ends a name at NUL.
 */
export function findAmbiguity(text: string): string | null {
  const { fault, hasInexactNumber } = findFaults(text);
  return fault ?? (hasInexactNumber ? 'A number is too large or too exact: send it as text.' : null);
}

/** The same with numbers apart, which a server may write as it likes. */
export function findFaults(text: string): {
  readonly fault: string | null;
  readonly hasInexactNumber: boolean;
} {
  const value: unknown = JSON.parse(text);
  const fault = faultOf(value, 0);
  if (fault !== null || isLossless(text, value)) return { fault, hasInexactNumber: false };
  let hasInexactNumber = false;
  for (const { kind } of jsonLosses(text)) {
    if (kind === 'name') return { fault: sameName, hasInexactNumber };
    hasInexactNumber = true;
  }
  // The scanner and the comparison disagree where there is neither: refuse.
  return { fault: hasInexactNumber ? null : sameName, hasInexactNumber };
}

const sameName = 'Two members of one object have the same name.';

/** `depth`: objects and arrays around the value. Recursion ends at the bound that it guards. */
function faultOf(value: unknown, depth: number): string | null {
  if (typeof value !== 'object' || value === null) return null;
  if (depth === proxyLimits.jsonDepthMax) {
    return `The JSON is nested deeper than ${proxyLimits.jsonDepthMax}.`;
  }
  const isList = Array.isArray(value);
  for (const [name, member] of Object.entries(value)) {
    if (!isList && name === '__proto__') return 'A member is called __proto__.';
    if (!isList && name.includes('\0')) return 'The name of a member contains NUL.';
    const fault = faultOf(member, depth + 1);
    if (fault !== null) return fault;
  }
  return null;
}

/** As Unicode folds single letters: `ſ` is an `s`, the Kelvin sign a `k`. */
export const foldCase = (text: string): string => text.toUpperCase().toLowerCase();
