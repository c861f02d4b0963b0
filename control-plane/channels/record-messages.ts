import { Counter } from 'prom-client';
import type { ChannelDisablingReason, ChannelError } from '../../shared/model/channel.ts';
import type { ChannelId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Database } from '../base/database.ts';
import type { Ended } from '../webhooks/outbox.ts';
import type { ChannelDeps } from './deps.ts';
import { channelsLimits } from './limits.ts';
import { type MessageResult, recordMessages } from './message-queue.ts';

/** One attempt, and its meaning for the channel. */
export interface MessageAttempt extends MessageResult, Ended {
  readonly atMs: UnixMillis;
  readonly isGone: boolean;
  readonly pausedUntilMs: UnixMillis | null;
  /** Null where it was sent. */
  readonly error: ChannelError | null;
}

/**
 * Writes down what attempts have come to, and what they say about their channels. Where it throws, whether
 * anything was written is unknown; writing the same once more changes nothing where it was, but for the count
 * of failures.
 */
export function makeMessageRecorder(
  deps: Pick<ChannelDeps, 'sql' | 'clock' | 'logger' | 'metrics' | 'replicaId'>,
): (attempts: readonly MessageAttempt[]) => Promise<void> {
  const { sql, clock, logger, replicaId, metrics } = deps;
  const sent = new Counter({
    name: 'agent_trust_channel_messages_total',
    help: 'Attempts to send a message about an approval to a channel, by kind and outcome.',
    labelNames: ['kind', 'outcome'],
    registers: [metrics],
  });
  const disabled = new Counter({
    name: 'agent_trust_channels_disabled_total',
    help: 'Channels that were disabled because they are gone or keep failing, by reason.',
    labelNames: ['reason'],
    registers: [metrics],
  });
  return async (attempts) => {
    if (attempts.length === 0) return;
    await recordMessages(sql, replicaId, attempts);
    for (const { channelId, reason } of await updateHealth(sql, standingsOf(attempts), clock.now())) {
      disabled.inc({ reason });
      logger.warn({ channel_id: channelId, reason }, 'a channel was disabled');
    }
    for (const { message, error } of attempts)
      sent.inc({ kind: message.kind, outcome: error === null ? 'sent' : error.code });
  };
}

/** What some attempts at one channel show about it. */
interface Standing {
  readonly channelId: ChannelId;
  readonly generation: number;
  readonly hasSucceeded: boolean;
  readonly isGone: boolean;
  readonly failures: number;
  readonly error: ChannelError | null;
  readonly pausedUntilMs: UnixMillis | null;
  readonly atMs: UnixMillis;
}

function standingsOf(attempts: readonly MessageAttempt[]): readonly Standing[] {
  const standings = new Map<string, Standing>();
  for (const { message, hasSucceeded, isGone, error, pausedUntilMs, atMs } of attempts) {
    const { channelId, generation } = message;
    const key = `${channelId} ${generation}`;
    const earlier = standings.get(key);
    standings.set(key, {
      ...{ channelId, generation, atMs },
      hasSucceeded: hasSucceeded || (earlier?.hasSucceeded ?? false),
      isGone: isGone || (earlier?.isGone ?? false),
      failures: (earlier?.failures ?? 0) + (hasSucceeded ? 0 : 1),
      error: error ?? earlier?.error ?? null,
      pausedUntilMs: pausedUntilMs ?? earlier?.pausedUntilMs ?? null,
    });
  }
  return [...standings.values()];
}

/**
 * A channel that begins anew meanwhile is left alone. A mail that one receiver refuses for good counts as a
 * failure of its channel, because a channel of mail has one receiver.
 */
async function updateHealth(
  sql: Database,
  standings: readonly Standing[],
  nowMs: UnixMillis,
): Promise<readonly { readonly channelId: ChannelId; readonly reason: ChannelDisablingReason }[]> {
  const failingBeforeMs = nowMs - channelsLimits.channelFailingMsMax;
  const rows = await sql<{ channelId: ChannelId; reason: ChannelDisablingReason | null }[]>`
    WITH noted AS (
      SELECT * FROM unnest(
        ${standings.map(({ channelId }) => channelId)}::text[],
        ${standings.map(({ generation }) => generation)}::int[],
        ${standings.map(({ hasSucceeded }) => (hasSucceeded ? 1 : 0))}::int[],
        ${standings.map(({ isGone }) => (isGone ? 1 : 0))}::int[],
        ${standings.map(({ failures }) => failures)}::int[],
        ${standings.map(({ error }) => error?.code ?? null)}::text[],
        ${standings.map(({ error }) => error?.detail ?? null)}::text[],
        ${standings.map(({ pausedUntilMs }) => pausedUntilMs)}::bigint[],
        ${standings.map(({ atMs }) => atMs)}::bigint[]
      ) AS noted (channel_id, era, has_succeeded, is_gone, failures, error_code, error_detail, paused_until_ms, at_ms)
    ), judged AS (
      SELECT noted.*, CASE WHEN noted.is_gone = 1 THEN 'gone'
        WHEN noted.has_succeeded = 0 AND c.failing_since_ms <= ${failingBeforeMs} THEN 'failing' END AS reason
      FROM noted JOIN channels c USING (channel_id, era)
      WHERE c.status = 'enabled'
      ORDER BY c.channel_id FOR UPDATE OF c
    )
    UPDATE channels c
    SET status = CASE WHEN j.reason IS NULL THEN 'enabled' ELSE 'disabled' END, disabled_reason = j.reason,
      failing_since_ms = CASE WHEN j.has_succeeded = 0 THEN coalesce(c.failing_since_ms, j.at_ms) END,
      failures = CASE WHEN j.has_succeeded = 0 THEN least(c.failures + j.failures, 1000000) ELSE 0 END,
      last_error_code = CASE WHEN j.has_succeeded = 0 THEN j.error_code END,
      last_error_detail = CASE WHEN j.has_succeeded = 0 THEN j.error_detail END,
      last_error_at_ms = CASE WHEN j.has_succeeded = 0 THEN j.at_ms END,
      last_sent_at_ms = CASE WHEN j.has_succeeded = 1 THEN j.at_ms ELSE c.last_sent_at_ms END,
      version = CASE WHEN j.reason IS NULL THEN c.version ELSE c.version + 1 END,
      updated_at_ms = CASE WHEN j.reason IS NULL THEN c.updated_at_ms ELSE ${nowMs} END,
      paused_until_ms = greatest(c.paused_until_ms, j.paused_until_ms)
    FROM judged j WHERE c.channel_id = j.channel_id
    RETURNING c.channel_id AS "channelId", c.disabled_reason AS reason`;
  return rows.flatMap(({ channelId, reason }) => (reason === null ? [] : [{ channelId, reason }]));
}
