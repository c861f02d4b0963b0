import { textHash } from '../../shared/crypto/content-hash.ts';
import type { Webhook } from '../../shared/model/webhook.ts';
import { renderWebhook } from '../../shared/wire/api/webhook.ts';

/**
 * A webhook as the audit shows it. Path and query of a URL are often the receiver's only protection, and
 * readers of the audit may have no right to manage webhooks. So it has the URL's origin, and a hash that
 * shows changes.
 */
export const webhookOnRecord = (webhook: Webhook) => ({
  ...renderWebhook(webhook),
  url: webhook.url === null ? null : new URL(webhook.url).origin,
  url_hash: webhook.url === null ? null : textHash(webhook.url),
});
