import type { UnixMillis } from '../../shared/model/time.ts';
import { renderApproval } from '../../shared/wire/api/approval.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import type { Transaction } from '../base/database.ts';
import { emitRequested, emitResolved } from '../channels/emit-messages.ts';
import { noteHints } from '../events/note-hints.ts';
import { together } from '../storage/together.ts';
import { emitEvents } from '../webhooks/emit-events.ts';
import type { StoredApproval } from './approval-store.ts';

/**
 * Emits events and hints to the owners of the gates (contract §14), and messages to their channels, when the
 * caller's transaction commits. Sends the approvals as given.
 */
export async function emitApprovalEvents(
  tx: Transaction,
  deps: Pick<AppendingDeps, 'random' | 'baseUrl'>,
  event: 'approval.requested' | 'approval.resolved',
  approvals: readonly StoredApproval[],
  timestampMs: UnixMillis,
): Promise<void> {
  const events = approvals.map((approval) => ({
    event,
    to: [{ accountId: approval.gateAccountId, mode: approval.gateMode }],
    data: renderApproval(approval, deps.baseUrl),
    timestampMs,
  }));
  await together([() => emitEvents(tx, deps, events), () => emitMessages(tx, event, approvals, timestampMs)]);
  hintApprovals(tx, approvals);
}

/** Without an event: one of several answers has come or gone. */
export const hintApprovals = (
  tx: Transaction,
  approvals: readonly Pick<StoredApproval, 'approvalId' | 'gateAccountId' | 'gateMode'>[],
): void =>
  noteHints(
    tx,
    approvals.map(({ approvalId, gateAccountId, gateMode }) => ({
      accountId: gateAccountId,
      mode: gateMode,
      type: 'approval',
      id: approvalId,
    })),
  );

async function emitMessages(
  tx: Transaction,
  event: 'approval.requested' | 'approval.resolved',
  approvals: readonly StoredApproval[],
  nowMs: UnixMillis,
): Promise<void> {
  if (event === 'approval.requested') {
    const opened = approvals.map(({ gateAccountId, gateMode, ...approval }) => ({
      ...approval,
      accountId: gateAccountId,
      mode: gateMode,
    }));
    return emitRequested(tx, opened);
  }
  // Those of one call have ended in the same way.
  const isUndoable = approvals.some(({ status }) => status !== 'expired');
  const approvalIds = approvals.map(({ approvalId }) => approvalId);
  return emitResolved(tx, approvalIds, { nowMs, isUndoable });
}
