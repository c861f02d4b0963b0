import { InvariantError } from '../../shared/errors/assert.ts';
import type { Constraints } from '../../shared/model/constraints.ts';
import { parseConstraints } from '../../shared/wire/api/constraints.ts';

/**
 * Constraints as they lie in a row, in the public shape. They were validated before they were written, so an
 * unreadable one is an internal error that must fail the request: a 400 would blame the caller, and ignoring
 * it would lift a limit.
 */
export function readStoredConstraints(value: unknown, of: ConstrainedRow): Constraints {
  try {
    return parseConstraints(value, { param: 'constraints', of });
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new InvariantError(`the stored constraints of a ${of} can be read: ${why}`, { cause });
  }
}

/**
 * The same for readers of many rows, where a bad one must not affect the others. Null: unreadable; the caller
 * ensures that this lifts no limit.
 */
export function tryStoredConstraints(value: unknown, of: ConstrainedRow): Constraints | null {
  try {
    return parseConstraints(value, { param: 'constraints', of });
  } catch {
    return null;
  }
}

type ConstrainedRow = 'gate' | 'template' | 'passport';
