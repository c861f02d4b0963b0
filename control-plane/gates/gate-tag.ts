import type { Gate } from '../../shared/model/gate.ts';
import { entityTag } from '../http/entity-tag.ts';

/**
 * Names a state of the gate's policy. Its counters move on without it: whoever edits a gate does not care
 * about them.
 */
export const gateTag = ({ version }: Pick<Gate, 'version'>): string => entityTag(String(version));
