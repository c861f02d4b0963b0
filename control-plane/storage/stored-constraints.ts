import { InvariantError } from '../../shared/errors/assert.ts';
import type { Constraints } from '../../shared/model/constraints.ts';
import { parseConstraints } from '../../shared/wire/constraints.ts';

/**
 * Constraints as they lie in a row, in the public shape. They were read before they were written, so one that
 * cannot be read is our fault and must fail the request: answering 400 would blame the caller, and passing it
 * over would lift a limit.
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
 * The same for whoever reads the rows of many, where one must not keep the others from their answer. Null:
 * they cannot be read, and whoever asked sees to it that this lifts no limit.
 */
export function tryStoredConstraints(value: unknown, of: ConstrainedRow): Constraints | null {
  try {
    return parseConstraints(value, { param: 'constraints', of });
  } catch {
    return null;
  }
}

type ConstrainedRow = 'gate' | 'template' | 'passport';
