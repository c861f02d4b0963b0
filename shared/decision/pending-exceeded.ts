import type { Decision } from './facts.ts';

/**
 * What becomes of a SUSPEND for which no approval may be opened, because `limits.approvalsPendingMax` requests of the passport wait at the gate (decisions
 * §5). Only the store of approvals can count them, so `decide` cannot.
 */
export const pendingExceeded = (suspended: Decision): Decision => ({
  ...suspended,
  outcome: 'BLOCK',
  reason: 'approvals_pending_exceeded',
  charge: null,
  approvalExpiresInMs: null,
});
