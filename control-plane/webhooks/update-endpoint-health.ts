import type { WebhookId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { DisablingReason } from '../../shared/model/webhook.ts';
import type { Database } from '../base/database.ts';
import { webhooksLimits } from './limits.ts';

/** What some attempts at one endpoint show about it. */
export interface EndpointResults {
  readonly webhookId: WebhookId;
  /** Generation of the endpoint when they were locked; column `era`. */
  readonly generation: number;
  /** How many of those that count did. */
  readonly succeeded: number;
  readonly failed: number;
  /** It answered 410 Gone. */
  readonly isGone: boolean;
  /** It asked for a pause until then. */
  readonly pausedUntilMs: UnixMillis | null;
}

export interface Disabled {
  readonly webhookId: WebhookId;
  readonly reason: DisablingReason;
}

/**
 * Keeps since when an endpoint has been failing, and disables it where it is gone or has failed for
 * `webhooksLimits.webhookFailingMsMax` without a success in between (contract §14). Resolves to those that
 * were disabled just now. What waits for them waits on. Nothing is written for an endpoint that works and did
 * before, nor for one that has begun anew since: another URL, or enabled again by its owner.
 */
export async function updateEndpointHealth(
  sql: Database,
  { endpoints, nowMs }: { readonly endpoints: readonly EndpointResults[]; readonly nowMs: UnixMillis },
): Promise<readonly Disabled[]> {
  const failingBeforeMs = nowMs - webhooksLimits.webhookFailingMsMax;
  const rows = await sql<{ webhookId: WebhookId; reason: DisablingReason | null }[]>`
    WITH noted AS (
      SELECT * FROM unnest(
        ${endpoints.map(({ webhookId }) => webhookId)}::text[],
        ${endpoints.map(({ generation }) => generation)}::int[],
        ${endpoints.map(({ succeeded }) => succeeded)}::int[],
        ${endpoints.map(({ failed }) => failed)}::int[],
        ${endpoints.map(({ isGone }) => (isGone ? 1 : 0))}::int[],
        ${endpoints.map(({ pausedUntilMs }) => pausedUntilMs)}::bigint[]
      ) AS noted (webhook_id, era, succeeded, failed, is_gone, paused_until_ms)
    ), judged AS (
      SELECT w.webhook_id, noted.paused_until_ms,
        CASE WHEN succeeded > 0 THEN NULL WHEN failed > 0 THEN coalesce(w.failing_since_ms, ${nowMs})
          ELSE w.failing_since_ms END AS failing_since_ms,
        CASE WHEN is_gone = 1 THEN 'gone'
          WHEN succeeded = 0 AND failed > 0 AND w.failing_since_ms <= ${failingBeforeMs} THEN 'failing' END AS reason
      FROM noted JOIN webhooks w USING (webhook_id, era)
      WHERE w.status = 'enabled'
        AND (failed > 0 AND succeeded = 0 OR is_gone = 1 OR succeeded > 0 AND w.failing_since_ms IS NOT NULL OR noted.paused_until_ms IS NOT NULL)
      ORDER BY w.webhook_id FOR UPDATE OF w
    )
    UPDATE webhooks w
    SET failing_since_ms = judged.failing_since_ms, disabled_reason = judged.reason,
      status = CASE WHEN judged.reason IS NULL THEN 'enabled' ELSE 'disabled' END,
      updated_at_ms = CASE WHEN judged.reason IS NULL THEN w.updated_at_ms ELSE ${nowMs} END,
      paused_until_ms = greatest(w.paused_until_ms, judged.paused_until_ms)
    FROM judged
    WHERE w.webhook_id = judged.webhook_id
    RETURNING w.webhook_id AS "webhookId", w.disabled_reason AS reason`;
  return rows.flatMap(({ webhookId, reason }) => (reason === null ? [] : [{ webhookId, reason }]));
}
