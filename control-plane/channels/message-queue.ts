import type { Approval } from '../../shared/model/approval.ts';
import type { ChannelEvent, ChannelKind } from '../../shared/model/channel.ts';
import type { ApprovalId, ChannelId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Database, Transaction } from '../base/database.ts';
import { webhooksLimits } from '../webhooks/limits.ts';
import type { Claimed, Queue } from '../webhooks/outbox.ts';
import { channelsLimits } from './limits.ts';
import type { SpokenFor } from './notice.ts';
import { allowanceOf, paceAfter } from './pace.ts';

/** The next queues after that channel, walked as those of webhooks are (`webhooks/delivery-queue.ts`). */
export async function readMessageQueues(
  sql: Database | Transaction,
  { after, nowMs }: { readonly after: string; readonly nowMs: UnixMillis },
): Promise<readonly Queue[]> {
  return sql<Queue[]>`
    WITH RECURSIVE queues AS (
      (SELECT channel_id, next_attempt_at_ms, 1 AS place FROM channel_messages
        WHERE next_attempt_at_ms IS NOT NULL AND channel_id > ${after}
        ORDER BY channel_id, next_attempt_at_ms LIMIT 1)
      UNION ALL
      SELECT next.channel_id, next.next_attempt_at_ms, queues.place + 1
      FROM queues CROSS JOIN LATERAL (
        SELECT m.channel_id, m.next_attempt_at_ms FROM channel_messages m
        WHERE m.next_attempt_at_ms IS NOT NULL AND m.channel_id > queues.channel_id
        ORDER BY m.channel_id, m.next_attempt_at_ms LIMIT 1
      ) AS next
      WHERE queues.place < ${webhooksLimits.webhookQueuesPerLookMax}
    )
    SELECT q.channel_id AS "endpointId", c.channel_id IS NULL AS "isDeleted",
      c.channel_id IS NOT NULL AND q.next_attempt_at_ms <= ${nowMs} AND ${takesNow(sql, nowMs)} AS "isDue"
    FROM queues q LEFT JOIN channels c USING (channel_id) ORDER BY q.channel_id`;
}

/** Whether the channel `c` takes messages now. Those of a suspended account wait, as webhooks do. */
const takesNow = (sql: Database | Transaction, nowMs: UnixMillis) => sql`
  c.status = 'enabled' AND coalesce(c.paused_until_ms, 0) <= ${nowMs}
  AND (c.kind = 'webhook' OR ${allowanceOf(sql, nowMs)} > 0)
  AND (SELECT a.status FROM accounts a WHERE a.account_id = c.account_id) = 'active'`;

/** Removes some messages of deleted channels. */
export async function dropMessages(sql: Database, channelIds: readonly string[]): Promise<void> {
  await sql`
    DELETE FROM channel_messages WHERE (approval_id, channel_id, event) IN (
      SELECT approval_id, channel_id, event FROM channel_messages
      WHERE channel_id = ANY(${[...channelIds]}::text[]) AND next_attempt_at_ms IS NOT NULL
      LIMIT ${channelsLimits.channelMessagesPerTrimMax})`;
}

/** What names a message. */
export interface MessageKey {
  readonly approvalId: ApprovalId;
  readonly channelId: ChannelId;
  readonly event: ChannelEvent;
}

/** A message locked by this replica, with what it tells. */
export interface LockedMessage extends MessageKey, Claimed {
  readonly tries: number;
  /** When it was due before it was locked. */
  readonly wasDueAtMs: UnixMillis;
  readonly kind: ChannelKind;
  readonly sealedTarget: string;
  /** Generation of the channel when it was locked; column `era`. */
  readonly generation: number;
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
  claim: {
    readonly slots: ReadonlyMap<string, number>;
    readonly replicaId: string;
    readonly nowMs: UnixMillis;
  },
): Promise<readonly LockedMessage[]> {
  const { nowMs } = claim;
  const lockEndsAtMs = nowMs + channelsLimits.channelLockMs;
  const rows = await sql<LockedRow[]>`
    WITH allowed AS MATERIALIZED (
      SELECT c.channel_id, ${allowanceOf(sql, nowMs)} AS allowance FROM channels c
      WHERE c.channel_id = ANY(${[...claim.slots.keys()]}::text[]) AND c.kind <> 'webhook' AND ${takesNow(sql, nowMs)}
      FOR NO KEY UPDATE OF c SKIP LOCKED
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
      SELECT p.*, c.kind, c.sealed_target, c.era, ${fateOf(sql, nowMs)} AS fate
      FROM picked p JOIN channels c USING (channel_id) LEFT JOIN approvals a ON a.approval_id = p.approval_id COLLATE "default"
      LEFT JOIN channel_messages f
        ON f.approval_id = p.approval_id AND f.channel_id = p.channel_id AND f.event = 'approval.requested'
      WHERE ${takesNow(sql, nowMs)}
    ), judged AS MATERIALIZED (
      SELECT * FROM (
        SELECT s.*, w.allowance, row_number() OVER (
          PARTITION BY s.channel_id, s.fate ORDER BY s.next_attempt_at_ms, s.approval_id) AS place
        FROM seen s LEFT JOIN allowed w USING (channel_id)
      ) AS placed WHERE fate <> 'send' OR kind = 'webhook' OR place <= coalesce(allowance, 0)
    ), spent AS (
      UPDATE channels c SET pace_at_ms = ${paceAfter(sql, nowMs, sql`s.used`)}
      FROM (SELECT channel_id, count(*) AS used FROM judged WHERE fate = 'send' AND kind <> 'webhook' GROUP BY 1) AS s
      WHERE c.channel_id = s.channel_id
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
    SELECT l.channel_id AS "channelId", l.event, l.tries, l.next_attempt_at_ms AS "lockEndsAtMs", l.was_due AS "wasDueAtMs",
      l.kind, l.sealed_target AS "sealedTarget", l.era AS generation, l.fate, ${approvalColumns(sql)},
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
  a.approval_id AS "approvalId", a.status, a.passport_id AS "passportId", a.agent_id AS "agentId",
  a.gate_id AS "gateId", a.gate_version AS "gateVersion", a.request_hash AS "requestHash",
  a.permission_key AS "permissionKey", a.amount_micro_usd AS "amountMicroUsd", a.display,
  a.created_at_ms AS "createdAtMs", a.expires_at_ms AS "expiresAtMs", a.resolved_at_ms AS "resolvedAtMs",
  a.resolved_by AS "resolvedBy", a.note, coalesce((
    SELECT jsonb_agg(jsonb_build_object('userId', n.user_id, 'answer', n.answer, 'atMs', n.at_ms, 'note', n.note,
      'isSigned', n.assertion IS NOT NULL, 'invitedBy', n.invited_by) ORDER BY n.place)
    FROM approval_answers n WHERE n.approval_id = a.approval_id AND n.undone_at_ms IS NULL), '[]') AS answers`;

function toMessage(row: LockedRow, nowMs: UnixMillis): LockedMessage {
  const { channelId, event, tries, lockEndsAtMs, wasDueAtMs, kind, sealedTarget, generation } = row;
  const { gateName, agentName, resolverName, fate, bundled, spokenFor, ...rest } = row;
  const isOver = (rest.status === 'pending' || rest.status === 'approved') && nowMs >= rest.expiresAtMs;
  const approval: Approval = {
    approvalId: rest.approvalId,
    status: isOver ? 'expired' : rest.status,
    passportId: rest.passportId,
    agentId: rest.agentId,
    gateId: rest.gateId,
    gateVersion: rest.gateVersion,
    requestHash: rest.requestHash,
    permissionKey: rest.permissionKey,
    amountMicroUsd: rest.amountMicroUsd,
    display: rest.display,
    createdAtMs: rest.createdAtMs,
    expiresAtMs: rest.expiresAtMs,
    resolvedAtMs: rest.resolvedAtMs,
    resolvedBy: rest.resolvedBy,
    note: rest.note,
    answers: rest.answers,
  };
  return {
    ...{ approvalId: rest.approvalId, channelId, event, tries, lockEndsAtMs, wasDueAtMs, kind, sealedTarget },
    ...{ bundled, spokenFor, generation, approval, gateName, agentName, resolverName },
  };
}

/** A message, then those that it speaks for. */
const keysOf = ({
  approvalId,
  channelId,
  event,
  bundled,
}: Pick<LockedMessage, keyof MessageKey | 'bundled'>): readonly MessageKey[] =>
  [approvalId, ...bundled].map((each) => ({ approvalId: each, channelId, event }));

/** What a message has come to. */
export interface MessageResult {
  readonly message: LockedMessage;
  readonly status: 'pending' | 'sent' | 'failed';
  /** Null unless it stays `pending`. */
  readonly nextAttemptAtMs: UnixMillis | null;
}

/**
 * One that was locked again meanwhile is skipped: what comes of that counts. Where a message failed for good,
 * those that it spoke for are due as they were: what a server refuses may be the words of one requester.
 */
export async function recordMessages(
  sql: Database | Transaction,
  replicaId: string,
  results: readonly MessageResult[],
): Promise<void> {
  const rows = results.flatMap(({ message, status, nextAttemptAtMs }) => {
    const { lockEndsAtMs, wasDueAtMs } = message;
    const result = { lockEndsAtMs, status, nextAttemptAtMs };
    const ofOthers =
      status === 'failed' ? { lockEndsAtMs, status: 'pending', nextAttemptAtMs: wasDueAtMs } : result;
    return keysOf(message).map((key, place) => ({ ...key, ...(place === 0 ? result : ofOthers) }));
  });
  await sql`
    UPDATE channel_messages m
    SET status = made.status, tries = m.tries + 1, next_attempt_at_ms = made.next_attempt_at_ms, claimed_by = NULL
    FROM unnest(
      ${rows.map(({ approvalId }) => approvalId)}::text[],
      ${rows.map(({ channelId }) => channelId)}::text[],
      ${rows.map(({ event }) => event)}::text[],
      ${rows.map((row) => row.lockEndsAtMs)}::bigint[],
      ${rows.map(({ status }) => status)}::text[],
      ${rows.map(({ nextAttemptAtMs }) => nextAttemptAtMs)}::bigint[]
    ) AS made (approval_id, channel_id, event, lock_ends_at_ms, status, next_attempt_at_ms)
    WHERE m.approval_id = made.approval_id AND m.channel_id = made.channel_id AND m.event = made.event
      AND m.claimed_by = ${replicaId} AND m.next_attempt_at_ms = made.lock_ends_at_ms`;
}

/** Releases what was locked and not attempted to its end: it is due as it was. */
export async function releaseMessages(
  sql: Database | Transaction,
  replicaId: string,
  messages: readonly LockedMessage[],
): Promise<void> {
  if (messages.length === 0) return;
  const rows = messages.flatMap(({ wasDueAtMs, lockEndsAtMs, ...message }) =>
    keysOf(message).map((key) => ({ ...key, lockEndsAtMs, wasDueAtMs })),
  );
  await sql`
    UPDATE channel_messages m SET next_attempt_at_ms = held.was_due, claimed_by = NULL
    FROM unnest(
      ${rows.map(({ approvalId }) => approvalId)}::text[],
      ${rows.map(({ channelId }) => channelId)}::text[],
      ${rows.map(({ event }) => event)}::text[],
      ${rows.map(({ lockEndsAtMs }) => lockEndsAtMs)}::bigint[],
      ${rows.map(({ wasDueAtMs }) => wasDueAtMs)}::bigint[]
    ) AS held (approval_id, channel_id, event, lock_ends_at_ms, was_due)
    WHERE m.approval_id = held.approval_id AND m.channel_id = held.channel_id AND m.event = held.event
      AND m.claimed_by = ${replicaId} AND m.next_attempt_at_ms = held.lock_ends_at_ms`;
}

/** Removes some messages of approvals that are that old. Resolves to whether none are left. */
export async function trimMessages(sql: Database, oldId: string): Promise<boolean> {
  const max = channelsLimits.channelMessagesPerTrimMax;
  const removed = await sql`
    DELETE FROM channel_messages WHERE (approval_id, channel_id, event) IN (
      SELECT approval_id, channel_id, event FROM channel_messages
      WHERE approval_id < ${oldId} ORDER BY approval_id LIMIT ${max})`;
  return removed.count < max;
}

export const waitingMessages = (sql: Database) =>
  sql`SELECT FROM channel_messages WHERE next_attempt_at_ms IS NOT NULL`;
