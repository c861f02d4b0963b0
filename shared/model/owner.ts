import type { AccountId } from './ids.ts';
import type { Mode } from './mode.ts';

/**
 * The owner of resources: one account in one mode. A caller sees only its own; others are 404 (contract §2).
 */
export interface Owner {
  readonly accountId: AccountId;
  readonly mode: Mode;
}
