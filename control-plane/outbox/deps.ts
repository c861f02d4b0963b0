import type { GuardedFetch } from './guarded-fetch.ts';

export interface OutboundDeps {
  /** For all calls to addresses chosen by callers of the API. */
  readonly outbound: GuardedFetch;
}
