import type { AccountId } from './ids.ts';
import type { Mode } from './mode.ts';

/**
 * Whose things a caller sees: those of one account, in one mode. Everything else does not exist for it
 * (contract §2).
 */
export interface Owner {
  readonly accountId: AccountId;
  readonly mode: Mode;
}
