import type { WebhookId } from '../../shared/model/ids.ts';
import { countOf, type SealedPlace } from '../master-key/sealed-place.ts';
import { webhookSealContext } from './webhook-secret.ts';
import type { PreviousSecret, WebhookSecrets } from './webhook-store.ts';

interface SealedWebhook extends WebhookSecrets {
  readonly webhookId: WebhookId;
  /** As the row has it. */
  readonly previousText: string;
}

/** Secrets of webhooks, the newest with those before it. */
export const sealedWebhookSecrets: SealedPlace = {
  name: 'webhooks',
  findOthers: async (sql, { prefix, after, limit }) => {
    const rows = await sql<SealedWebhook[]>`
      SELECT webhook_id AS "webhookId", sealed_secret AS "sealedSecret", previous_secrets AS "previousSecrets",
        previous_secrets::text AS "previousText"
      FROM webhooks
      WHERE webhook_id > ${after?.[0] ?? ''} AND (NOT starts_with(sealed_secret, ${prefix}) OR EXISTS (
        SELECT FROM jsonb_array_elements(previous_secrets) AS previous
        WHERE NOT starts_with(previous ->> 'sealed', ${prefix})))
      ORDER BY webhook_id LIMIT ${limit}`;
    return rows.map(({ webhookId, sealedSecret, previousSecrets, previousText }) => ({
      key: [webhookId],
      replace: async (reseal) => {
        const again = (sealed: string): string =>
          sealed.startsWith(prefix) ? sealed : reseal(sealed, webhookSealContext(webhookId));
        const previous: PreviousSecret[] = previousSecrets.map(({ sealed, endsAtMs }) => ({
          sealed: again(sealed),
          endsAtMs,
        }));
        const { count } = await sql`
          UPDATE webhooks SET sealed_secret = ${again(sealedSecret)},
            previous_secrets = ${JSON.stringify(previous)}::text::jsonb
          WHERE webhook_id = ${webhookId} AND sealed_secret = ${sealedSecret}
            AND previous_secrets = ${previousText}::text::jsonb`;
        return count > 0;
      },
    }));
  },
  count: async (sql, prefix) =>
    countOf(
      await sql`
        SELECT count(*) AS count FROM webhooks
        WHERE starts_with(sealed_secret, ${prefix}) OR EXISTS (
          SELECT FROM jsonb_array_elements(previous_secrets) AS previous
          WHERE starts_with(previous ->> 'sealed', ${prefix}))`,
    ),
};
