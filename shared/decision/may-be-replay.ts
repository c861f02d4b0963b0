import type { DecisionReason } from '../model/decision.ts';
import type { Decision } from './facts.ts';

/**
 * What the first PERMIT of a request leaves behind for its second: its units are taken, and its approval is
 * used.
 */
const leftByFirst: ReadonlySet<DecisionReason | null> = new Set<DecisionReason>([
  'spend_limit_exceeded',
  'rate_limit_exceeded',
  'quota_unavailable',
  'approval_used',
]);

/**
 * Whether an earlier PERMIT under the same idempotency key may be the reason for this outcome: the key is
 * looked up then, and the first PERMIT answered again (contract §5). Every other BLOCK is final, above all
 * those of the passport: they bind a replay too.
 */
export const mayBeReplay = ({ outcome, reason }: Decision): boolean =>
  outcome === 'SUSPEND' || leftByFirst.has(reason);
