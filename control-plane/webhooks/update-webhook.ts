import type { Static } from 'typebox';
import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import type { WebhookId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { Webhook } from '../../shared/model/webhook.ts';
import { distinctEvents, type WebhookUpdate } from '../../shared/wire/webhook.ts';
import type { Deps } from '../deps.ts';
import { checkUrl } from './create-webhook.ts';
import { beginAnew, lockWebhook, updateWebhookRow } from './webhook-store.ts';

/**
 * Changes what is present. What waits for an endpoint that is disabled waits on, and goes out when it is enabled again, unless it has become too
 * old. Another URL, or enabling, begins anew: what failed before counts no more.
 */
export async function updateWebhook(
  deps: Pick<Deps, 'sql' | 'clock' | 'outbound'>,
  owner: Owner,
  { webhookId, update }: { readonly webhookId: WebhookId; readonly update: Static<typeof WebhookUpdate> },
): Promise<Webhook> {
  if (update.url !== undefined) checkUrl(deps.outbound, update.url);
  return deps.sql.begin(async (tx) => {
    const before = await lockWebhook(tx, owner, webhookId);
    if (before === null) throw new ApiError('webhook_not_found');
    if (before.url === null && update.url !== undefined) {
      throw invalidRequest('url', 'A webhook without a url stays without one; create another.');
    }
    const next: Webhook = { ...changed(before, update), updatedAtMs: deps.clock.now() };
    await updateWebhookRow(tx, next);
    if (next.status === before.status && next.url === before.url) return next;
    await beginAnew(tx, webhookId);
    return { ...next, failingSinceMs: null };
  });
}

function changed(before: Webhook, update: Static<typeof WebhookUpdate>): Webhook {
  const status = update.status ?? before.status;
  const reason = before.status === 'disabled' ? before.disabledReason : 'owner';
  return {
    ...before,
    url: update.url ?? before.url,
    events: update.events === undefined ? before.events : distinctEvents(update.events),
    description: update.description === undefined ? before.description : update.description,
    status,
    disabledReason: status === 'enabled' ? null : reason,
  };
}
