import type { DecisionReason } from '../model/decision.ts';
import type { Decision } from './facts.ts';

/** Effects of a request's first PERMIT that its second sees: units taken, approval used. */
const leftByFirst: ReadonlySet<DecisionReason | null> = new Set<DecisionReason>([
  'spend_limit_exceeded',
  'rate_limit_exceeded',
  'wallet_limit_exceeded',
  'quota_unavailable',
  'approval_used',
]);

/**
 * Whether an earlier PERMIT under the same idempotency key may have caused this outcome: then the key is
 * looked up and the first PERMIT answered again (contract §5). Every other BLOCK is final, above all those of
 * the passport, which apply to replays too.
 */
export const mayBeReplay = ({ outcome, reason }: Decision): boolean =>
  outcome === 'SUSPEND' || leftByFirst.has(reason);
