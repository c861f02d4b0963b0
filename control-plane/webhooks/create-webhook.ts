import type { Static } from 'typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { Webhook } from '../../shared/model/webhook.ts';
import { parseLabels } from '../../shared/wire/api/labels.ts';
import { distinctEvents, type WebhookCreation } from '../../shared/wire/api/webhook.ts';
import type { Transaction } from '../base/database.ts';
import { refuseTarget } from '../outbox/guarded-fetch.ts';
import type { WebhookDeps } from './deps.ts';
import { webhooksLimits } from './limits.ts';
import { newWebhookSecret } from './webhook-secret.ts';
import { countWebhooksLocked, insertWebhook } from './webhook-store.ts';

/** An endpoint at a moment at which its secret is shown. */
export interface WebhookWithSecret {
  readonly webhook: Webhook;
  readonly secret: string;
}

/**
 * Subscribes an endpoint; it gets what happens from the commit on. Throws `invalid_request` for a URL that
 * would never be called. One whose name resolves to a private address is found out when it is called: what a
 * name resolves to today says nothing about tomorrow.
 */
export async function createWebhook(
  tx: Transaction,
  deps: Pick<WebhookDeps, 'clock' | 'random' | 'sealer' | 'outbound'>,
  { owner, wanted }: { readonly owner: Owner; readonly wanted: Static<typeof WebhookCreation> },
): Promise<WebhookWithSecret> {
  if (wanted.url !== null) refuseTarget(deps.outbound, 'url', wanted.url);
  if ((await countWebhooksLocked(tx, owner)) >= webhooksLimits.webhooksPerAccountMax) {
    throw new ApiError('invalid_request', {
      message: `An account has at most ${webhooksLimits.webhooksPerAccountMax} webhooks in each mode.`,
    });
  }
  const nowMs = deps.clock.now();
  const webhook: Webhook = {
    webhookId: deps.random.newId('wh', nowMs),
    accountId: owner.accountId,
    mode: owner.mode,
    url: wanted.url,
    events: distinctEvents(wanted.events),
    format: wanted.format ?? 'standard',
    description: wanted.description ?? null,
    labels: parseLabels(wanted.labels ?? {}),
    status: 'enabled',
    disabledReason: null,
    failingSinceMs: null,
    createdAtMs: nowMs,
    updatedAtMs: nowMs,
  };
  const { secret, sealed } = newWebhookSecret(deps, webhook.webhookId);
  await insertWebhook(tx, webhook, sealed);
  return { webhook, secret };
}
