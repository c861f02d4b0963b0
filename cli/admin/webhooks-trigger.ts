import { isJsonObject } from '../../shared/crypto/json-object.ts';
import {
  makeWebhookSecret,
  readWebhookSecret,
  webhookSecretBytes,
} from '../../shared/crypto/webhook-signature.ts';
import { limits } from '../../shared/model/limits.ts';
import type { WebhookEvent, WebhookFormat } from '../../shared/model/webhook.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { systemRandom } from '../../shared/runtime/random.ts';
import { renderEvent, sentBody } from '../../shared/wire/api/webhook.ts';
import { sampleData } from '../../shared/wire/api/webhook-samples.ts';
import { type ApiAccess, CommandError, callApi, UsageError } from '../base/call-api.ts';
import type { TextSink } from '../base/text-sink.ts';
import { checkForwardUrl, forwardEvent } from './forward-event.ts';
import { checkEvents } from './webhooks-listen.ts';

/** 0: sent, or in flight. 1: the program at the address refused it. */
export type TriggerExitCode = 0 | 1;

/**
 * `agent-trust webhooks trigger EVENT`: an event with sample data. With `forwardTo` it goes from here to that
 * address, without the service; else the service sends it to every enabled webhook of the account that
 * subscribes to it, including `agent-trust webhooks listen`.
 */
export async function triggerCommand(options: {
  readonly event: string;
  readonly forwardTo: string | null;
  /** For `forwardTo`; null: one is generated and shown. */
  readonly secret: string | null;
  /** For `forwardTo`: endpoints have their own. */
  readonly format: WebhookFormat;
  /** Called only without `forwardTo`. */
  readonly api: () => Promise<ApiAccess>;
  readonly output: TextSink;
}): Promise<TriggerExitCode> {
  const { output } = options;
  const [event] = checkEvents([options.event]);
  if (event === undefined) throw new UsageError('name an event');
  if (options.forwardTo !== null) return sendFromHere(event, options.forwardTo, options);
  await sendFromService(event, await options.api(), output);
  return 0;
}

async function sendFromHere(
  event: WebhookEvent,
  url: string,
  {
    secret: given,
    format,
    output,
  }: { readonly secret: string | null; readonly format: WebhookFormat; readonly output: TextSink },
): Promise<TriggerExitCode> {
  checkForwardUrl(url);
  if (given !== null && readWebhookSecret(given) === null) {
    throw new UsageError('AGENT_TRUST_WEBHOOK_SECRET must be whsec_ and base64 of 24 to 64 bytes.');
  }
  const random = systemRandom();
  const secret = given ?? makeWebhookSecret(random.bytes(webhookSecretBytes));
  if (given === null) output.write(`Signed with ${secret}\n`);
  const nowMs = systemClock.now();
  const id = random.newId('evt', nowMs);
  const standard = renderEvent({ event, timestampMs: nowMs, data: sampleData(event) });
  const body = sentBody({ eventId: id, body: standard, format, source: 'https://trust.example.com' });
  const { isTaken, outcome } = await forwardEvent(url, { id, body, format, secret, nowMs });
  output.write(`${event} ${id} -> ${outcome}\n`);
  return isTaken ? 0 : 1;
}

async function sendFromService(event: WebhookEvent, api: ApiAccess, output: TextSink): Promise<void> {
  // More than an account has.
  const { body } = await callApi(api, 'GET', `/webhooks?limit=${limits.pageItemsMax}`);
  const webhooks = Array.isArray(body['items']) ? body['items'].filter(isJsonObject) : [];
  const subscribed = webhooks.filter(
    ({ status, events }) => status === 'enabled' && Array.isArray(events) && events.includes(event),
  );
  if (subscribed.length === 0) {
    throw new CommandError(
      `No enabled webhook of this account subscribes to ${event}. Create one, or run: agent-trust webhooks listen --forward-to URL`,
    );
  }
  for (const { webhook_id, url } of subscribed) {
    const sent = await callApi(api, 'POST', `/webhooks/${String(webhook_id)}/test`, { event });
    const where = url === null ? 'to be fetched' : `to ${String(url)}`;
    output.write(`${event} ${String(sent.body['event_id'])} ${where} (${String(webhook_id)})\n`);
  }
}
