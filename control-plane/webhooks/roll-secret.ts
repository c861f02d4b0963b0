import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import type { WebhookId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { renderTime, type UnixMillis } from '../../shared/model/time.ts';
import type { Deps } from '../deps.ts';
import type { WebhookWithSecret } from './create-webhook.ts';
import { newWebhookSecret } from './webhook-secret.ts';
import {
  lockWebhook,
  type PreviousSecret,
  readSecrets,
  type WebhookSecrets,
  writeSecrets,
} from './webhook-store.ts';

/**
 * Replaces the secret of an endpoint. For `overlapMs` the old one signs every attempt too, so that the receiver can change at any moment in between;
 * rolled again meanwhile, by whoever lost the answer, each signs on for as long as was promised for it. With 0 nothing but the new one signs any
 * more, whatever was promised: a secret may have become known. Throws `invalid_request` where one more would be too many.
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
    const old = await readSecrets(tx, webhookId);
    const previousSecrets = overlapMs === 0 ? [] : previousOf(old, { nowMs, overlapMs });
    await writeSecrets(tx, webhookId, { sealedSecret: sealed, previousSecrets, nowMs });
    return { webhook: { ...webhook, updatedAtMs: nowMs }, secret };
  });
}

function previousOf(
  { sealedSecret, previousSecrets }: WebhookSecrets,
  { nowMs, overlapMs }: { readonly nowMs: UnixMillis; readonly overlapMs: number },
): PreviousSecret[] {
  const signing = previousSecrets.filter(({ endsAtMs }) => nowMs < endsAtMs);
  if (signing.length >= limits.webhookPreviousSecretsMax) {
    const firstEndMs = Math.min(...signing.map(({ endsAtMs }) => endsAtMs)) as UnixMillis;
    throw invalidRequest(
      'overlap_s',
      `${signing.length} earlier secrets of this webhook still sign, one of them until ${renderTime(firstEndMs)}. Roll it after that, or with overlap_s 0, which ends all of them at once.`,
    );
  }
  return [...signing, { sealed: sealedSecret, endsAtMs: (nowMs + overlapMs) as UnixMillis }];
}
