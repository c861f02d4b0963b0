import type { UnixMillis } from '../../shared/model/time.ts';
import { renderApproval } from '../../shared/wire/approval.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import type { Transaction } from '../base/database.ts';
import { noteHints } from '../events/note-hints.ts';
import { emitEvents } from '../webhooks/emit-events.ts';
import type { StoredApproval } from './approval-store.ts';

/**
 * Emits events and hints to the owners of the gates (contract §14), when the caller's transaction commits.
 * Sends the approvals as given.
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
  await emitEvents(tx, deps, events);
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
