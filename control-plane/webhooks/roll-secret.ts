import { ApiError } from '../../shared/errors/api-error.ts';
import type { WebhookId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Deps } from '../deps.ts';
import type { WebhookWithSecret } from './create-webhook.ts';
import { newWebhookSecret } from './webhook-secret.ts';
import { lockWebhook, replaceSecret } from './webhook-store.ts';

/**
 * Replaces the secret of an endpoint. For `overlapMs` both sign every attempt, so that the receiver can change at any moment in between; with 0 the
 * old one signs nothing any more.
 */
export async function rollSecret(
  deps: Pick<Deps, 'sql' | 'clock' | 'random' | 'sealer'>,
  owner: Owner,
  { webhookId, overlapMs }: { readonly webhookId: WebhookId; readonly overlapMs: number },
): Promise<WebhookWithSecret> {
  return deps.sql.begin(async (tx) => {
    const webhook = await lockWebhook(tx, owner, webhookId);
    if (webhook === null) throw new ApiError('webhook_not_found');
    const nowMs = deps.clock.now();
    const { secret, sealed } = newWebhookSecret(deps, webhookId);
    const previousEndsAtMs = overlapMs === 0 ? null : ((nowMs + overlapMs) as UnixMillis);
    await replaceSecret(tx, webhookId, { sealedSecret: sealed, previousEndsAtMs, nowMs });
    return { webhook: { ...webhook, updatedAtMs: nowMs }, secret };
  });
}
