import { signWebhook } from '../../shared/crypto/webhook-signature.ts';
import { toSeconds, type UnixMillis } from '../../shared/model/time.ts';
import { parseTraceparent, renderTraceHeaders } from '../../shared/wire/api/trace-context.ts';
import { sentBody, webhookHeaders } from '../../shared/wire/api/webhook.ts';
import { type Posted, post } from '../outbox/attempt.ts';
import type { LockedDelivery } from './delivery-queue.ts';
import type { WebhookDeps } from './deps.ts';
import { sourceOf } from './source-of.ts';
import { openWebhookSecret } from './webhook-secret.ts';

/**
 * Sends a delivery once, signed with every secret that counts now. Any 2xx is success; a redirect is not
 * followed and is a failure. Never throws for what the endpoint or the network does; throws where the secret
 * cannot be opened.
 */
export async function sendDelivery(
  deps: Pick<WebhookDeps, 'baseUrl' | 'clock' | 'sealer' | 'outbound' | 'tracer'>,
  delivery: LockedDelivery,
  { nowMs, signal }: { readonly nowMs: UnixMillis; readonly signal: AbortSignal },
): Promise<Posted> {
  const message = {
    id: delivery.eventId,
    timestampS: toSeconds(nowMs),
    format: delivery.format,
    body: sentBody({ ...delivery, source: sourceOf(deps) }),
  };
  const signatures = secretsOf(deps, delivery, nowMs).map((secret) => signWebhook(secret, message));
  const parent = parseTraceparent(delivery.traceparent ?? undefined, delivery.tracestate ?? '');
  const span = deps.tracer?.start('webhook', { kind: 'client', parent }) ?? null;
  const trace = span?.trace ?? parent;
  const headers = {
    ...webhookHeaders({ ...message, signatures }),
    ...(trace !== null && renderTraceHeaders(trace)),
  };
  const answer = await post(deps, delivery.url, { headers, body: message.body, signal });
  span?.end(spanEndOf(delivery, answer));
  return answer;
}

/** Without the address of the endpoint, which may have a key in it. */
const spanEndOf = (
  { endpointId, eventId, attempts }: LockedDelivery,
  { statusCode, hasSucceeded }: Posted,
) => ({
  attributes: {
    'agent_trust.webhook_id': endpointId,
    'agent_trust.event_id': eventId,
    'agent_trust.attempt': attempts + 1,
    ...(statusCode !== null && { 'http.response.status_code': statusCode }),
  },
  isError: !hasSucceeded,
});

/** The current secret, then those before it that still count. */
function secretsOf(
  { sealer }: Pick<WebhookDeps, 'sealer'>,
  { endpointId, sealedSecret, previousSecrets }: LockedDelivery,
  nowMs: UnixMillis,
): Uint8Array[] {
  const previous = previousSecrets.filter(({ endsAtMs }) => nowMs < endsAtMs);
  const sealed = [sealedSecret, ...previous.map((each) => each.sealed)];
  return sealed.map((each) => openWebhookSecret(sealer, endpointId, each));
}
