import { ApiError } from '../../shared/errors/api-error.ts';
import type { WebhookId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { administer } from '../audit/administer.ts';
import type { Caller } from '../http/caller.ts';
import type { WebhookDeps } from './deps.ts';
import { webhookOnRecord } from './webhook-on-record.ts';
import { deleteWebhookRow, lockWebhook } from './webhook-store.ts';

/** Deletes an endpoint for good; what has not been delivered to it never is. Resolves to the moment of it. */
export function deleteWebhook(deps: WebhookDeps, caller: Caller, webhookId: WebhookId): Promise<UnixMillis> {
  return administer(deps, caller, async (tx) => {
    const webhook = await lockWebhook(tx, caller, webhookId);
    if (webhook === null) throw new ApiError('webhook_not_found');
    await deleteWebhookRow(tx, webhookId);
    const before = webhookOnRecord(webhook);
    return {
      result: deps.clock.now(),
      audited: { operation: 'deleteWebhook', target: webhookId, before, after: null },
    };
  });
}
