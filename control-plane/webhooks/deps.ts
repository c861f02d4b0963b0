import type { SigningDeps } from '../signing/deps.ts';
import type { GuardedFetch } from './guarded-fetch.ts';

export interface WebhookDeps extends SigningDeps {
  /** For all calls to addresses chosen by callers of the API. */
  readonly outbound: GuardedFetch;
}
