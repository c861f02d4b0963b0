/**
 * A broken invariant: our fault, never the caller's. Whoever catches it fails the request closed and reports.
 */
export class InvariantError extends Error {
  override readonly name = 'InvariantError';
}

/**
 * Throws InvariantError unless the condition holds. Stays on in production. The sentence says what should
 * have been true.
 */
export function assert(condition: boolean, sentence: string): asserts condition {
  if (!condition) throw new InvariantError(sentence);
}

/** The value, which must be there. */
export function must<T>(value: T | null | undefined, sentence: string): T {
  if (value === null || value === undefined) throw new InvariantError(sentence);
  return value;
}

/** The end of a switch over a closed union: the compiler proves that nothing arrives here. */
export function unreachable(value: never): never {
  throw new InvariantError(`unexpected value: ${String(value)}`);
}
