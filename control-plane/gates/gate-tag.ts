import type { Gate } from '../../shared/model/gate.ts';
import { entityTag } from '../http/entity-tag.ts';

/** Identifies a version of the gate. Excludes its counters, which do not matter to an editor. */
export const gateTag = ({ version }: Pick<Gate, 'version'>): string => entityTag(String(version));
