import { textHash } from '../../shared/crypto/content-hash.ts';
import type { Webhook } from '../../shared/model/webhook.ts';
import { renderWebhook } from '../../shared/wire/webhook.ts';

/**
 * A webhook as the audit shows it. The path and the query of a URL are often all that protects its receiver,
 * and who reads the audit need not be who may manage webhooks: of the URL it holds the origin, and a hash by
 * which a change shows.
 */
export const webhookOnRecord = (webhook: Webhook) => ({
  ...renderWebhook(webhook),
  url: webhook.url === null ? null : new URL(webhook.url).origin,
  url_hash: webhook.url === null ? null : textHash(webhook.url),
});
