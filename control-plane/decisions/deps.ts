import type { AccountId } from '../../shared/model/ids.ts';
import type { RetryWaits } from '../../shared/runtime/retry-waits.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import type { FairShare } from '../storage/fair-share.ts';
import type { WebhookDeps } from '../webhooks/deps.ts';
import type { CheckQueue } from './check-queue.ts';
import type { Enforcement, EnforcementCall } from './enforcement.ts';
import type { VoidQueue } from './void-queue.ts';

export interface DecisionDeps extends AppendingDeps, WebhookDeps {
  /**
   * Keeps decisions of one account from holding all connections while they wait for each other
   * (admission/decision-slots.ts).
   */
  readonly slots: FairShare<AccountId>;
  /** Queues the control plane's own checks for the next batch of their account. */
  readonly checks: CheckQueue<EnforcementCall, Enforcement | 'prove' | null>;
  /** Holds requests that wait for others in flight; bounded by `decisionsLimits.retries`. */
  readonly retryWaits: RetryWaits;
  /** Decisions with an unknown commit outcome. */
  readonly voidQueue: VoidQueue;
}

export type DecidingDeps = Pick<
  DecisionDeps,
  | 'sql'
  | 'clock'
  | 'random'
  | 'ed25519'
  | 'baseUrl'
  | 'signingKeys'
  | 'appending'
  | 'checks'
  | 'voidQueue'
  | 'retryWaits'
>;
