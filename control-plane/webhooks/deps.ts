import type { SigningDeps } from '../signing/deps.ts';
import type { GuardedFetch } from './guarded-fetch.ts';

export interface WebhookDeps extends SigningDeps {
  /** The only way to addresses that callers of the API have chosen. */
  readonly outbound: GuardedFetch;
}
