import type { Approval } from '../../shared/model/approval.ts';
import type { ChannelEvent, ChannelKind } from '../../shared/model/channel.ts';
import type { ApprovalId, ChannelId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Database, Transaction } from '../base/database.ts';
import type { Claim, Claimed, Queues } from '../outbox/outbox.ts';
import { takesNow } from '../outbox/queues.ts';
import { userOfApproval } from '../storage/user-of-approval.ts';
import { channelsLimits } from './limits.ts';
import type { SpokenFor } from './notice.ts';
import { allowanceOf, paceAfter } from './pace.ts';

/** The queues of `channel_messages`. */
export const messageQueues: Queues<LockedMessage> = {
  ...{ work: 'messages', deliveries: 'channel_messages', key: ['approval_id', 'channel_id', 'event'] },
  ...{ doneStatus: 'sent', counters: ['tries'] },
  ...{ endpoint: 'channel', endpoints: 'channels', endpointId: 'channel_id' },
  keysOf: ({ approval, bundled, endpointId, event }) =>
    [approval.approvalId, ...bundled].map((approvalId) => [approvalId, endpointId, event]),
  takesNow: (sql, nowMs) => sql`(endpoint.kind = 'webhook' OR ${allowanceOf(sql, nowMs)} > 0)`,
  health: (sql) => sql`
    failures = CASE WHEN noted.succeeded = 0 THEN least(endpoint.failures + noted.failed, 1000000) ELSE 0 END,
    last_error_code = CASE WHEN noted.succeeded = 0 THEN noted.fault_code END,
    last_error_detail = CASE WHEN noted.succeeded = 0 THEN noted.fault_detail END,
    last_error_at_ms = CASE WHEN noted.succeeded = 0 THEN noted.at_ms END,
    last_sent_at_ms = CASE WHEN noted.succeeded > 0 THEN noted.at_ms ELSE endpoint.last_sent_at_ms END,
    version = CASE WHEN noted.reason IS NULL THEN endpoint.version ELSE endpoint.version + 1 END`,
};

/** A message locked by this replica, with what it tells. */
export interface LockedMessage extends Claimed {
  readonly endpointId: ChannelId;
  readonly event: ChannelEvent;
  readonly kind: ChannelKind;
  readonly sealedTarget: string;
  /** Approvals with the same event that this message speaks for, too. */
  readonly bundled: readonly ApprovalId[];
  /** These, summed up; null: none. */
  readonly spokenFor: SpokenFor | null;
  readonly approval: Approval;
  readonly gateName: string | null;
  readonly agentName: string | null;
  readonly resolverName: string | null;
}

type Fate = 'send' | 'later' | 'cancelled';
type LockedRow = Omit<LockedMessage, 'approval'> & Approval & { readonly fate: Fate };

/**
 * Locks what is due at each of these channels, at most as many as it has slots, the longest due first,
 * skipping what other replicas are locking. Cancels what is not to be told any more: a beginning whose
 * approval has ended, and an end whose beginning was never sent. So escalation stops with the approval. An
 * end whose beginning is in flight waits for it.
 *
 * At a channel for people the last message of an event takes along the others that are due, if they are many
 * or the channel may have no further message now: they are locked, recorded and released with it. A webhook
 * is read by a program and gets each of them.
 */
export async function lockMessages(
  sql: Database | Transaction,
  claim: Claim,
): Promise<readonly LockedMessage[]> {
  const { nowMs } = claim;
  const canTake = takesNow(sql, messageQueues, nowMs);
  const lockEndsAtMs = nowMs + channelsLimits.channelLockMs;
  const rows = await sql<LockedRow[]>`
    WITH allowed AS MATERIALIZED (
      SELECT channel_id, ${allowanceOf(sql, nowMs)} AS allowance FROM channels endpoint
      WHERE channel_id = ANY(${[...claim.slots.keys()]}::text[]) AND kind <> 'webhook' AND ${canTake}
      FOR NO KEY UPDATE OF endpoint SKIP LOCKED
    ), picked AS MATERIALIZED (
      SELECT due.*
      FROM unnest(${[...claim.slots.keys()]}::text[], ${[...claim.slots.values()]}::bigint[]) AS e (channel_id, slots)
      JOIN channels c USING (channel_id) LEFT JOIN allowed w USING (channel_id)
      CROSS JOIN LATERAL (
        SELECT m.approval_id, m.channel_id, m.event, m.next_attempt_at_ms FROM channel_messages m
        WHERE m.channel_id = e.channel_id AND m.next_attempt_at_ms <= ${nowMs}
        ORDER BY m.next_attempt_at_ms LIMIT e.slots
        FOR UPDATE SKIP LOCKED
      ) AS due
      -- Rows locked in vain would be missing in the message of the replica that has the channel.
      WHERE c.kind = 'webhook' OR w.allowance > 0
    ), seen AS (
      SELECT p.*, endpoint.kind, endpoint.sealed_target, endpoint.era, ${fateOf(sql, nowMs)} AS fate
      FROM picked p JOIN channels endpoint USING (channel_id) LEFT JOIN approvals a ON a.approval_id = p.approval_id COLLATE "default"
      LEFT JOIN channel_messages f
        ON f.approval_id = p.approval_id AND f.channel_id = p.channel_id AND f.event = 'approval.requested'
      WHERE ${canTake}
    ), judged AS MATERIALIZED (
      SELECT * FROM (
        SELECT s.*, w.allowance, row_number() OVER (
          PARTITION BY s.channel_id, s.fate ORDER BY s.next_attempt_at_ms, s.approval_id) AS place
        FROM seen s LEFT JOIN allowed w USING (channel_id)
      ) AS placed WHERE fate <> 'send' OR kind = 'webhook' OR place <= coalesce(allowance, 0)
    ), spent AS (
      UPDATE channels endpoint SET pace_at_ms = ${paceAfter(sql, nowMs, sql`s.used`)}
      FROM (SELECT channel_id, count(*) AS used FROM judged WHERE fate = 'send' AND kind <> 'webhook' GROUP BY 1) AS s
      WHERE endpoint.channel_id = s.channel_id
    ), carriers AS (
      SELECT DISTINCT ON (channel_id, event) channel_id, event, approval_id,
        CASE WHEN max(place) OVER (PARTITION BY channel_id) >= allowance THEN 1
          ELSE ${channelsLimits.channelBundleFrom}::int END AS bundle_from
      FROM judged WHERE fate = 'send' AND kind <> 'webhook'
      ORDER BY channel_id, event, next_attempt_at_ms DESC, approval_id DESC
    ), beside AS MATERIALIZED (
      SELECT k.approval_id AS carrier, k.bundle_from, p.channel_id, p.event, p.approval_id, a.status, a.expires_at_ms,
        a.resolved_at_ms
      FROM carriers k CROSS JOIN LATERAL (
        SELECT m.approval_id, m.channel_id, m.event FROM channel_messages m
        WHERE m.channel_id = k.channel_id AND m.event = k.event AND m.next_attempt_at_ms <= ${nowMs}
          AND NOT EXISTS (SELECT FROM judged o
            WHERE o.approval_id = m.approval_id AND o.channel_id = m.channel_id AND o.event = m.event)
        ORDER BY m.next_attempt_at_ms LIMIT ${channelsLimits.channelBundleMax}
        FOR UPDATE SKIP LOCKED
      ) AS p LEFT JOIN approvals a ON a.approval_id = p.approval_id COLLATE "default"
      LEFT JOIN channel_messages f
        ON f.approval_id = p.approval_id AND f.channel_id = p.channel_id AND f.event = 'approval.requested'
      WHERE ${fateOf(sql, nowMs)} = 'send'
    ), bundles AS MATERIALIZED (
      SELECT carrier, channel_id, event, array_agg(approval_id) AS approval_ids, jsonb_build_object(
        'count', count(*), 'firstExpiresAtMs', min(expires_at_ms),
        'approved', count(*) FILTER (WHERE status IN ('approved', 'used') OR (status <> 'denied' AND resolved_at_ms IS NOT NULL)),
        'denied', count(*) FILTER (WHERE status = 'denied')) AS summary
      FROM beside GROUP BY carrier, channel_id, event, bundle_from HAVING count(*) >= bundle_from
    ), bundled AS (
      UPDATE channel_messages m SET next_attempt_at_ms = ${lockEndsAtMs}, claimed_by = ${claim.replicaId}
      FROM bundles b
      WHERE m.channel_id = b.channel_id AND m.event = b.event AND m.approval_id = ANY(b.approval_ids)
    ), locked AS (
      UPDATE channel_messages m
      SET status = CASE j.fate WHEN 'cancelled' THEN 'cancelled' ELSE 'pending' END,
        next_attempt_at_ms = CASE j.fate WHEN 'send' THEN ${lockEndsAtMs}::bigint
          WHEN 'later' THEN ${nowMs + channelsLimits.channelOrderMs}::bigint END,
        claimed_by = CASE j.fate WHEN 'send' THEN ${claim.replicaId} END
      FROM judged j
      WHERE m.approval_id = j.approval_id AND m.channel_id = j.channel_id AND m.event = j.event
      RETURNING m.approval_id, m.channel_id, m.event, m.tries, m.next_attempt_at_ms, j.next_attempt_at_ms AS was_due,
        j.kind, j.sealed_target, j.era, j.fate
    )
    SELECT l.channel_id AS "endpointId", l.event, l.tries, l.next_attempt_at_ms AS "lockEndsAtMs", l.was_due AS "dueAtMs",
      false AS "isOwners", l.kind, l.sealed_target AS "sealedTarget", l.era AS generation, l.fate, ${approvalColumns(sql)},
      coalesce(b.approval_ids, '{}') AS bundled, b.summary AS "spokenFor",
      g.name AS "gateName", p.agent_name AS "agentName", coalesce(u.name, k.name) AS "resolverName"
    FROM locked l JOIN approvals a ON a.approval_id = l.approval_id COLLATE "default"
    LEFT JOIN bundles b ON b.carrier = l.approval_id AND b.channel_id = l.channel_id AND b.event = l.event
    LEFT JOIN gates g ON g.gate_id = a.gate_id LEFT JOIN passports p ON p.passport_id = a.passport_id
    LEFT JOIN users u ON u.user_id = a.resolved_by LEFT JOIN api_keys k ON k.key_id = a.resolved_by
    WHERE l.fate = 'send'
    ORDER BY l.was_due, l.approval_id`;
  return rows.map((row) => toMessage(row, nowMs));
}

/**
 * Of a picked message `p` about the approval `a`, whose message about the beginning is `f`. A person's answer
 * that may still be undone has no message about the end that is due.
 */
const fateOf = (sql: Database | Transaction, nowMs: UnixMillis) => sql`
  CASE
    WHEN a.approval_id IS NULL THEN 'cancelled'
    WHEN p.event = 'approval.requested' THEN
      CASE WHEN a.status = 'pending' AND a.expires_at_ms > ${nowMs} THEN 'send' ELSE 'cancelled' END
    WHEN a.status = 'pending' AND a.expires_at_ms > ${nowMs} THEN 'cancelled'
    WHEN f.status = 'sent' THEN 'send'
    WHEN f.status = 'pending' AND f.claimed_by IS NOT NULL THEN 'later'
    ELSE 'cancelled'
  END`;

const approvalColumns = (sql: Database | Transaction) => sql`
  a.approval_id AS "approvalId", a.status, a.passport_id AS "passportId", a.agent_id AS "agentId", ${userOfApproval(sql, 'a')} AS "user",
  a.gate_id AS "gateId", a.gate_version AS "gateVersion", a.request_hash AS "requestHash",
  a.permission_key AS "permissionKey", a.amount_micro_usd AS "amountMicroUsd", a.display,
  a.created_at_ms AS "createdAtMs", a.expires_at_ms AS "expiresAtMs", a.resolved_at_ms AS "resolvedAtMs",
  a.resolved_by AS "resolvedBy", a.note, coalesce((
    SELECT jsonb_agg(jsonb_build_object('userId', n.user_id, 'answer', n.answer, 'atMs', n.at_ms, 'note', n.note,
      'isSigned', n.assertion IS NOT NULL, 'invitedBy', n.invited_by) ORDER BY n.place)
    FROM approval_answers n WHERE n.approval_id = a.approval_id AND n.undone_at_ms IS NULL), '[]') AS answers`;

function toMessage(row: LockedRow, nowMs: UnixMillis): LockedMessage {
  const { endpointId, generation, event, tries, lockEndsAtMs, dueAtMs, isOwners, kind, ...rest } = row;
  const { sealedTarget, bundled, spokenFor, gateName, agentName, resolverName, fate, ...stored } = rest;
  const isOver = (stored.status === 'pending' || stored.status === 'approved') && nowMs >= stored.expiresAtMs;
  return {
    ...{ endpointId, generation, event, tries, lockEndsAtMs, dueAtMs, isOwners, kind, sealedTarget },
    ...{ bundled, spokenFor, gateName, agentName, resolverName },
    approval: isOver ? { ...stored, status: 'expired' } : stored,
  };
}
