import type { Static } from 'typebox';
import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import type { WebhookId } from '../../shared/model/ids.ts';
import type { Webhook } from '../../shared/model/webhook.ts';
import { parseLabels } from '../../shared/wire/api/labels.ts';
import { refuseChanges } from '../../shared/wire/api/read-only.ts';
import {
  distinctEvents,
  renderWebhook,
  type WebhookUpdate,
  webhookReadOnly,
} from '../../shared/wire/api/webhook.ts';
import { administer } from '../audit/administer.ts';
import type { Caller } from '../http/caller.ts';
import { refuseTarget } from '../outbox/guarded-fetch.ts';
import type { WebhookDeps } from './deps.ts';
import { webhookOnRecord } from './webhook-on-record.ts';
import { beginAnew, lockWebhook, updateWebhookRow } from './webhook-store.ts';

/**
 * Changes what is present. What waits for an endpoint that is disabled waits on, and goes out when it is
 * enabled again, unless it has become too old. Another URL, or enabling, begins anew: what failed before
 * counts no more.
 */
export async function updateWebhook(
  deps: WebhookDeps,
  caller: Caller,
  { webhookId, update }: { readonly webhookId: WebhookId; readonly update: Static<typeof WebhookUpdate> },
): Promise<Webhook> {
  if (update.url !== undefined) refuseTarget(deps.outbound, 'url', update.url);
  return administer(deps, caller, async (tx) => {
    const before = await lockWebhook(tx, caller, webhookId);
    if (before === null) throw new ApiError('webhook_not_found');
    refuseChanges(update, renderWebhook(before), webhookReadOnly);
    if (before.url === null && update.url !== undefined) {
      throw invalidRequest(
        'url',
        'A url cannot be added to a webhook that was created without one; create another webhook.',
      );
    }
    const next: Webhook = { ...changed(before, update), updatedAtMs: deps.clock.now() };
    await updateWebhookRow(tx, next);
    const isAnew = next.status !== before.status || next.url !== before.url;
    if (isAnew) await beginAnew(tx, webhookId);
    const result: Webhook = isAnew ? { ...next, failingSinceMs: null } : next;
    return {
      result,
      audited: {
        operation: 'updateWebhook',
        target: webhookId,
        before: webhookOnRecord(before),
        after: webhookOnRecord(result),
      },
    };
  });
}

function changed(before: Webhook, update: Static<typeof WebhookUpdate>): Webhook {
  const status = update.status ?? before.status;
  const reason = before.status === 'disabled' ? before.disabledReason : 'owner';
  return {
    ...before,
    url: update.url ?? before.url,
    events: update.events === undefined ? before.events : distinctEvents(update.events),
    format: update.format ?? before.format,
    description: update.description === undefined ? before.description : update.description,
    labels: update.labels === undefined ? before.labels : parseLabels(update.labels),
    status,
    disabledReason: status === 'enabled' ? null : reason,
  };
}
