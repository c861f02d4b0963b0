import { InvariantError } from '../../shared/errors/assert.ts';
import type { Constraints } from '../../shared/model/constraints.ts';
import { parseConstraints } from '../../shared/wire/constraints.ts';

/**
 * Constraints as they lie in a row, in the public shape. They were read before they were written, so one that
 * cannot be read is our fault and must fail the request: answering 400 would blame the caller, and passing it
 * over would lift a limit.
 */
export function readStoredConstraints(value: unknown, of: 'gate' | 'template' | 'passport'): Constraints {
  try {
    return parseConstraints(value, { param: 'constraints', of });
  } catch (cause) {
    throw new InvariantError(`the stored constraints of a ${of} can be read`, { cause });
  }
}
