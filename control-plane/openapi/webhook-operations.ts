import { type WebhookEvent, webhookEvents } from '../../shared/model/webhook.ts';
import { sampleData } from '../../shared/wire/api/webhook-samples.ts';
import type { Parameter, WebhookOperation } from './document.ts';

const summaries: Readonly<Record<WebhookEvent, string>> = {
  'passport.verified': 'A gate permitted a request',
  'passport.denied': 'A gate blocked a request',
  'passport.revoked': 'A passport was revoked',
  'gate.created': 'A gate was created',
  'shadow.ended': 'The shadow of a gate ended before it expired',
  'spend_limit.approaching': 'Committed spend passed `alert_at` of a limit of a gate, a passport or a wallet',
  'approval.requested': 'A request waits for an approval',
  'approval.resolved': 'An approval was granted or denied, or expired',
  'hold.expired': 'A hold came to its end without an outcome',
  'outcome.refused': 'An outcome that a sidecar had taken was refused',
  'mcp_pin.changed': 'A tool of an MCP server is not as it was pinned',
  'history.regressed': 'The database lacks what sidecars were told',
};

const header = (name: string, description: string): Parameter => ({
  name,
  in: 'header',
  required: true,
  description,
  schema: { type: 'string' },
});

const signatureHeaders: readonly Parameter[] = [
  header(
    'webhook-id',
    'Id of the event, `evt_…`: the same in every attempt, so that a receiver can drop repeats.',
  ),
  header(
    'webhook-timestamp',
    'When this attempt was signed, in Unix seconds. Refuse what is more than 5 minutes off.',
  ),
  header(
    'webhook-signature',
    'Signatures separated by a space, each `v1,` and base64 of HMAC-SHA256 over `{webhook-id}.{webhook-timestamp}.{body}` with the secret of the webhook.',
  ),
];

/** The schema of an event's body in the document: `PassportVerifiedEvent`. */
export const eventSchemaName = (event: WebhookEvent): string => `${pascalCase(event)}Event`;

/** What the service sends to webhooks, by event: headers as Standard Webhooks has them. */
export const webhookOperations = (): Readonly<Record<WebhookEvent, { readonly post: WebhookOperation }>> =>
  Object.fromEntries(webhookEvents.map((event) => [event, { post: operationOf(event) }])) as Record<
    WebhookEvent,
    { readonly post: WebhookOperation }
  >;

const operationOf = (event: WebhookEvent): WebhookOperation => ({
  operationId: `on${pascalCase(event)}`,
  summary: summaries[event],
  tags: ['Webhooks'],
  security: [],
  parameters: signatureHeaders,
  requestBody: {
    required: true,
    content: {
      'application/json': {
        schema: { $ref: `#/components/schemas/${eventSchemaName(event)}` },
        examples: {
          sample: { value: { event, timestamp: '2026-01-01T00:00:00.000Z', data: sampleData(event) } },
        },
      },
    },
  },
  responses: {
    '2XX': { description: 'Received. Anything else is retried; redirects are not followed.' },
    410: { description: 'Send nothing more: the webhook is disabled.' },
  },
});

const pascalCase = (event: WebhookEvent): string =>
  event.replaceAll(/(?:^|[._])([a-z])/g, (_match, letter: string) => letter.toUpperCase());
