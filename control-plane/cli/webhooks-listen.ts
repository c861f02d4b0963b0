import { setTimeout as pause } from 'node:timers/promises';
import { isJsonObject, type JsonObject } from '../../shared/crypto/json-object.ts';
import { limits } from '../../shared/model/limits.ts';
import { secondMs } from '../../shared/model/time.ts';
import { type WebhookEvent, webhookEvents } from '../../shared/model/webhook.ts';
import { type Clock, systemClock } from '../../shared/runtime/clock.ts';
import { type ApiAccess, CommandError, callApi, UsageError } from './call-api.ts';
import { checkForwardUrl, forwardEvent } from './forward-event.ts';
import type { TextSink } from './verify-attestations.ts';

export interface ListenOptions {
  readonly api: ApiAccess;
  readonly forwardTo: string;
  /** Empty: all. */
  readonly events: readonly string[];
  /** Ends it. */
  readonly signal: AbortSignal;
  readonly output: TextSink;
  readonly clock?: Clock;
}

/** How often the service is asked; with a plan limit seldom enough to leave calls for everything else. */
const pollMs = secondMs;
const limitedPollMs = 5 * secondMs;
/**
 * Deliveries that were forwarded, remembered so that none goes twice: far more than arrive between two looks.
 */
const seenMax = 10_000;

/**
 * `agent-trust webhooks listen`: forwards what happens to a program on this machine. The service cannot reach
 * that, so this asks the service: it makes a webhook without a URL, fetches its deliveries every second,
 * sends each on, signed with the secret of that webhook, and deletes the webhook at the end. One that is left
 * behind by `kill -9` is disabled after an hour; a machine that slept for longer fetches again, which enables
 * it.
 *
 * Each event is forwarded once, in the order of its making as far as that is known; what the program refuses
 * is shown and not repeated.
 */
export async function listenCommand(options: ListenOptions): Promise<void> {
  const { api, forwardTo, signal, output, clock = systemClock } = options;
  checkForwardUrl(forwardTo);
  const events = checkEvents(options.events);
  const made = await callApi(api, 'POST', '/webhooks', {
    url: null,
    events,
    description: 'agent-trust webhooks listen',
  });
  const path = `/webhooks/${String(made.body['webhook_id'])}`;
  const secret = String(made.body['secret']);
  output.write(
    `Listening for ${events.join(', ')}.\nForwarding to ${forwardTo}, signed with ${secret}\nCtrl-C ends it.\n`,
  );
  try {
    const seen = new Set<string>();
    while (!signal.aborted) {
      const { deliveries, pauseMs } = await fetchNew(api, path, seen, output);
      for (const { id, event, body } of deliveries) {
        if (signal.aborted) break;
        const { outcome } = await forwardEvent(forwardTo, { id, body, secret, nowMs: clock.now(), signal });
        output.write(`${new Date(clock.now()).toISOString()}  ${event.padEnd(24)} ${id}  -> ${outcome}\n`);
      }
      // Ends at once with the signal, which the loop looks at.
      await pause(pauseMs, null, { signal }).catch(() => null);
    }
  } finally {
    await callApi(api, 'DELETE', path);
  }
}

interface FetchedDelivery {
  readonly id: string;
  readonly event: string;
  readonly body: string;
}

/** What was not seen before, oldest first. Trouble is shown, and the next look is later. */
async function fetchNew(
  api: ApiAccess,
  path: string,
  seen: Set<string>,
  output: TextSink,
): Promise<{ readonly deliveries: readonly FetchedDelivery[]; readonly pauseMs: number }> {
  const found: JsonObject[] = [];
  try {
    for (let behind = ''; ; ) {
      const query = `?limit=${limits.pageItemsMax}${behind}`;
      const { body, isLimited } = await callApi(api, 'GET', `${path}/deliveries${query}`);
      const items = Array.isArray(body['items']) ? body['items'].filter(isJsonObject) : [];
      const fresh = items.filter(({ delivery_id }) => !seen.has(String(delivery_id)));
      found.push(...fresh);
      const cursor = body['next_cursor'];
      const isLast = typeof cursor !== 'string' || fresh.length < items.length;
      if (isLast) return { deliveries: take(found, seen), pauseMs: isLimited ? limitedPollMs : pollMs };
      behind = `&cursor=${cursor}`;
    }
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    output.write(`${error.message}\n`);
    return { deliveries: [], pauseMs: Math.max(limitedPollMs, (error.retryAfterS ?? 0) * secondMs) };
  }
}

function take(found: readonly JsonObject[], seen: Set<string>): readonly FetchedDelivery[] {
  const deliveries = new Map(found.map((each) => [String(each['delivery_id']), each]));
  for (const id of deliveries.keys()) seen.add(id);
  for (const id of seen) {
    if (seen.size <= seenMax) break;
    seen.delete(id);
  }
  return [...deliveries.values()].toReversed().map((each) => ({
    id: String(each['event_id']),
    event: String(each['event']),
    body: JSON.stringify(each['payload']),
  }));
}

/** Throws UsageError for a name that is no event. None given: all. */
export function checkEvents(names: readonly string[]): readonly WebhookEvent[] {
  const unknown = names.find((name) => !webhookEvents.some((event) => event === name));
  if (unknown !== undefined) {
    throw new UsageError(`"${unknown}" is not an event. Events: ${webhookEvents.join(', ')}`);
  }
  return names.length === 0 ? webhookEvents : webhookEvents.filter((event) => names.includes(event));
}
