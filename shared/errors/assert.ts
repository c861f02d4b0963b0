/** A broken invariant: our fault, never the caller's. The catcher fails the request closed and reports it. */
export class InvariantError extends Error {
  override readonly name = 'InvariantError';
}

/**
 * Throws InvariantError unless the condition holds. Stays on in production. The sentence states the
 * invariant.
 */
export function assert(condition: boolean, sentence: string): asserts condition {
  if (!condition) throw new InvariantError(sentence);
}

/** The value, which must exist. */
export function must<T>(value: T | null | undefined, sentence: string): T {
  if (value === null || value === undefined) throw new InvariantError(sentence);
  return value;
}

/** The end of a switch over a closed union: the compiler proves that nothing arrives here. */
export function unreachable(value: never): never {
  throw new InvariantError(`unexpected value: ${String(value)}`);
}
