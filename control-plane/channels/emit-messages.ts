/**
 * Room `control-plane/channels`: people are told of approvals by Slack, e-mail and plain webhooks. Messages
 * go into their queue here, in the transaction that opens or ends an approval; `deliver-messages.ts` takes
 * them out, and `send-notice.ts` sends one. Channels in `channel-store.ts`.
 */

import { approvalUndoMs } from '../../shared/model/approval.ts';
import type { ApprovalId, GateId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Transaction } from '../base/database.ts';
import { noteDue } from '../storage/due-work.ts';
import { channelsLimits } from './limits.ts';

/** An approval that begins to wait. */
export interface Opened extends Owner {
  readonly approvalId: ApprovalId;
  readonly gateId: GateId;
  readonly createdAtMs: UnixMillis;
}

/**
 * Queues the first message for each channel of the gates, or of their account where a gate has none that is
 * enabled: due when the approval has been pending as long as the channel wants. Without channels this is one
 * index look-up. Waits for no lock.
 */
export async function emitRequested(tx: Transaction, opened: readonly Opened[]): Promise<void> {
  if (opened.length === 0) return;
  noteDue(tx, 'messages');
  await tx`
    INSERT INTO channel_messages (approval_id, channel_id, event, status, next_attempt_at_ms, due_at_ms)
    SELECT o.approval_id, c.channel_id, 'approval.requested', 'pending', o.created_at_ms + c.after_ms,
      o.created_at_ms + c.after_ms
    FROM unnest(
      ${opened.map(({ approvalId }) => approvalId)}::text[],
      ${opened.map(({ accountId }) => accountId)}::text[],
      ${opened.map(({ mode }) => mode)}::text[],
      ${opened.map(({ gateId }) => gateId)}::text[],
      ${opened.map(({ createdAtMs }) => createdAtMs)}::bigint[]
    ) AS o (approval_id, account_id, mode, gate_id, created_at_ms)
    JOIN channels c ON c.account_id = o.account_id AND c.mode = o.mode AND c.status = 'enabled'
    WHERE CASE WHEN c.gate_id IS NULL
      THEN NOT EXISTS (
        SELECT FROM channels own
        WHERE own.account_id = o.account_id AND own.mode = o.mode AND own.status = 'enabled' AND own.gate_id = o.gate_id)
      ELSE c.gate_id = o.gate_id END
    ON CONFLICT DO NOTHING`;
}

/**
 * Queues the message about the end for each channel that has one about the beginning; whether that was sent
 * shows when this is due. `isUndoable`: a person answered, so it waits until the answer stands. Of an
 * approval with two ends (approved, then expired) the first counts. Locks no row that others write.
 */
export async function emitResolved(
  tx: Transaction,
  approvalIds: readonly ApprovalId[],
  { nowMs, isUndoable }: { readonly nowMs: UnixMillis; readonly isUndoable: boolean },
): Promise<void> {
  if (approvalIds.length === 0) return;
  noteDue(tx, 'messages');
  const dueAtMs = isUndoable ? nowMs + approvalUndoMs + channelsLimits.channelEndMarginMs : nowMs;
  await tx`
    INSERT INTO channel_messages (approval_id, channel_id, event, status, next_attempt_at_ms, due_at_ms)
    SELECT m.approval_id, m.channel_id, 'approval.resolved', 'pending', ${dueAtMs}::bigint, ${dueAtMs}::bigint
    FROM channel_messages m JOIN channels c USING (channel_id)
    WHERE m.approval_id = ANY(${[...approvalIds]}::text[]) AND m.event = 'approval.requested'
      AND m.status IN ('pending', 'sent') AND 'approval.resolved' = ANY(c.events)
    ON CONFLICT DO NOTHING`;
}

/**
 * An answer was undone: nothing tells of it, and what was not sent because of it is due as before. In time
 * for both, because the message about the end is due later than the answer can be undone.
 */
export async function emitReopened(tx: Transaction, approvalId: ApprovalId): Promise<void> {
  noteDue(tx, 'messages');
  await tx`
    DELETE FROM channel_messages
    WHERE approval_id = ${approvalId} AND event = 'approval.resolved' AND claimed_by IS NULL AND status <> 'sent'`;
  await tx`
    UPDATE channel_messages SET status = 'pending', next_attempt_at_ms = due_at_ms
    WHERE approval_id = ${approvalId} AND event = 'approval.requested' AND status = 'cancelled'`;
}
