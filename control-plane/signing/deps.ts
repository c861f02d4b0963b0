import type { BaseDeps } from '../base/deps.ts';
import type { SigningKeys } from './signing-keys.ts';

/** For rooms that sign, and for those that write to the feed or the audit, which are signed. */
export interface SigningDeps extends BaseDeps {
  readonly signingKeys: SigningKeys;
}
