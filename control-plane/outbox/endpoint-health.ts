import type { UnixMillis } from '../../shared/model/time.ts';
import type { Database } from '../base/database.ts';
import { outboxLimits } from './limits.ts';
import type { Answer, Attempt, Claimed, Queues } from './outbox.ts';

/** What some attempts at one endpoint show about it. */
interface Standing extends Pick<Claimed, 'endpointId' | 'generation'> {
  /** How many of those that count did. */
  succeeded: number;
  failed: number;
  isGone: boolean;
  /** It asked for a pause until then. */
  pausedUntilMs: UnixMillis | null;
  fault: Answer['fault'];
  atMs: UnixMillis;
}

export interface Disabled {
  readonly endpointId: string;
  readonly reason: 'gone' | 'failing';
}

/**
 * Keeps since when an endpoint has been failing, and disables it where it is gone or has failed for
 * `outboxLimits.failingMsMax` without a success in between (contract §14). Resolves to those that were
 * disabled just now. What waits for them waits on. Nothing is noted for one that has begun anew since:
 * another target, or enabled again by its owner. A mail that one receiver refuses for good counts as a
 * failure of its channel, because a channel of mail has one receiver.
 */
export async function noteHealth(
  sql: Database,
  queues: Queues,
  attempts: readonly Attempt<Claimed, Answer>[],
  nowMs: UnixMillis,
): Promise<readonly Disabled[]> {
  const standings = standingsOf(attempts);
  const failingBeforeMs = nowMs - outboxLimits.failingMsMax;
  const [endpoints, id] = [sql(queues.endpoints), sql(queues.endpointId)];
  const more = queues.health(sql);
  const rows = await sql<{ endpointId: string; reason: Disabled['reason'] | null }[]>`
    WITH noted AS (
      SELECT * FROM unnest(
        ${standings.map(({ endpointId }) => endpointId)}::text[],
        ${standings.map(({ generation }) => generation)}::int[],
        ${standings.map(({ succeeded }) => succeeded)}::int[],
        ${standings.map(({ failed }) => failed)}::int[],
        ${standings.map(({ isGone }) => (isGone ? 1 : 0))}::int[],
        ${standings.map(({ pausedUntilMs }) => pausedUntilMs)}::bigint[],
        ${standings.map(({ fault }) => fault?.code ?? null)}::text[],
        ${standings.map(({ fault }) => fault?.detail ?? null)}::text[],
        ${standings.map(({ atMs }) => atMs)}::bigint[]
      ) AS noted (${id}, era, succeeded, failed, is_gone, paused_until_ms, fault_code, fault_detail, at_ms)
    ), judged AS (
      SELECT noted.*, CASE WHEN is_gone = 1 THEN 'gone'
        WHEN succeeded = 0 AND failed > 0 AND endpoint.failing_since_ms <= ${failingBeforeMs} THEN 'failing' END AS reason
      FROM noted JOIN ${endpoints} endpoint USING (${id}, era)
      WHERE endpoint.status = 'enabled' AND (${more !== null}
        OR failed > 0 AND succeeded = 0 OR is_gone = 1 OR succeeded > 0 AND endpoint.failing_since_ms IS NOT NULL
        OR noted.paused_until_ms IS NOT NULL)
      ORDER BY endpoint.${id} FOR UPDATE OF endpoint
    )
    UPDATE ${endpoints} endpoint
    SET failing_since_ms = CASE WHEN noted.succeeded > 0 THEN NULL
        WHEN noted.failed > 0 THEN coalesce(endpoint.failing_since_ms, noted.at_ms) ELSE endpoint.failing_since_ms END,
      status = CASE WHEN noted.reason IS NULL THEN 'enabled' ELSE 'disabled' END, disabled_reason = noted.reason,
      updated_at_ms = CASE WHEN noted.reason IS NULL THEN endpoint.updated_at_ms ELSE ${nowMs} END,
      paused_until_ms = greatest(endpoint.paused_until_ms, noted.paused_until_ms) ${more === null ? sql`` : sql`, ${more}`}
    FROM judged noted WHERE endpoint.${id} = noted.${id}
    RETURNING endpoint.${id} AS "endpointId", noted.reason`;
  return rows.flatMap(({ endpointId, reason }) => (reason === null ? [] : [{ endpointId, reason }]));
}

function standingsOf(attempts: readonly Attempt<Claimed, Answer>[]): readonly Standing[] {
  const standings = new Map<string, Standing>();
  for (const { delivery, answer, pausedUntilMs, endedAtMs } of attempts) {
    const { endpointId, generation, isOwners } = delivery;
    const key = `${endpointId} ${generation}`;
    const standing = standings.get(key) ?? { ...untried, endpointId, generation, atMs: endedAtMs };
    standings.set(key, standing);
    standing.atMs = endedAtMs;
    standing.pausedUntilMs = pausedUntilMs ?? standing.pausedUntilMs;
    standing.fault = answer.fault ?? standing.fault;
    if (isOwners) continue;
    if (answer.hasSucceeded) standing.succeeded += 1;
    else standing.failed += 1;
    if (answer.isGone) standing.isGone = true;
  }
  return [...standings.values()];
}

const untried = { succeeded: 0, failed: 0, isGone: false, pausedUntilMs: null, fault: null };
