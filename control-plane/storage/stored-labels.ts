import { InvariantError } from '../../shared/errors/assert.ts';
import type { Labels } from '../../shared/model/labels.ts';
import type { FreeForm } from '../../shared/wire/api/fields.ts';
import { parseLabels } from '../../shared/wire/api/labels.ts';

/** They were validated before they were written: unreadable ones are an InvariantError. */
export function readStoredLabels(stored: unknown): Labels {
  try {
    return parseLabels(stored as FreeForm);
  } catch (cause) {
    throw new InvariantError('stored labels can be read', { cause });
  }
}
