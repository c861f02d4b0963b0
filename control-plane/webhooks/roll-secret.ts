import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import type { WebhookId } from '../../shared/model/ids.ts';
import { renderTime, secondMs, type UnixMillis } from '../../shared/model/time.ts';
import { administer } from '../audit/administer.ts';
import type { Caller } from '../http/caller.ts';
import type { WebhookWithSecret } from './create-webhook.ts';
import type { WebhookDeps } from './deps.ts';
import { webhooksLimits } from './limits.ts';
import { newWebhookSecret } from './webhook-secret.ts';
import {
  lockWebhook,
  type PreviousSecret,
  readSecrets,
  type WebhookSecrets,
  writeSecrets,
} from './webhook-store.ts';

/**
 * Replaces the secret of an endpoint. For `overlapMs` the old one signs every attempt too, so that the
 * receiver can change at any moment in between; if it is rolled again meanwhile, after a lost answer, each
 * signs until its own promised end. With 0 only the new one signs, whatever was promised, because a secret
 * may have leaked. Throws `invalid_request` beyond the maximum of secrets.
 */
export async function rollSecret(
  deps: WebhookDeps,
  caller: Caller,
  { webhookId, overlapMs }: { readonly webhookId: WebhookId; readonly overlapMs: number },
): Promise<WebhookWithSecret> {
  return administer(deps, caller, async (tx) => {
    const webhook = await lockWebhook(tx, caller, webhookId);
    if (webhook === null) throw new ApiError('webhook_not_found');
    const nowMs = deps.clock.now();
    const { secret, sealed } = newWebhookSecret(deps, webhookId);
    const old = await readSecrets(tx, webhookId);
    const previousSecrets = overlapMs === 0 ? [] : previousOf(old, { nowMs, overlapMs });
    await writeSecrets(tx, webhookId, { sealedSecret: sealed, previousSecrets, nowMs });
    return {
      result: { webhook: { ...webhook, updatedAtMs: nowMs }, secret },
      audited: {
        operation: 'rollWebhookSecret',
        target: webhookId,
        before: null,
        after: { webhook_id: webhookId, overlap_s: overlapMs / secondMs },
      },
    };
  });
}

function previousOf(
  { sealedSecret, previousSecrets }: WebhookSecrets,
  { nowMs, overlapMs }: { readonly nowMs: UnixMillis; readonly overlapMs: number },
): PreviousSecret[] {
  const signing = previousSecrets.filter(({ endsAtMs }) => nowMs < endsAtMs);
  if (signing.length >= webhooksLimits.webhookPreviousSecretsMax) {
    const firstEndMs = Math.min(...signing.map(({ endsAtMs }) => endsAtMs)) as UnixMillis;
    throw invalidRequest(
      'overlap_s',
      `${signing.length} earlier secrets of this webhook still sign, one of them until ${renderTime(firstEndMs)}. Roll it after that, or with overlap_s 0, which ends all of them at once.`,
    );
  }
  return [...signing, { sealed: sealedSecret, endsAtMs: (nowMs + overlapMs) as UnixMillis }];
}
