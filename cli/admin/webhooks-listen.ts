import { setTimeout as pause } from 'node:timers/promises';
import { isJsonObject, type JsonObject } from '../../shared/crypto/json-object.ts';
import { limits } from '../../shared/model/limits.ts';
import { secondMs } from '../../shared/model/time.ts';
import { type WebhookEvent, type WebhookFormat, webhookEvents } from '../../shared/model/webhook.ts';
import { type Clock, systemClock } from '../../shared/runtime/clock.ts';
import { type ApiAccess, CommandError, callApi, UsageError } from '../base/call-api.ts';
import type { TextSink } from '../base/text-sink.ts';
import { checkForwardUrl, forwardEvent } from './forward-event.ts';

export interface ListenOptions {
  readonly api: ApiAccess;
  readonly forwardTo: string;
  /** Empty: all. */
  readonly events: readonly string[];
  /** Default: standard. */
  readonly format?: WebhookFormat;
  /** Ends it. */
  readonly signal: AbortSignal;
  readonly output: TextSink;
  readonly clock?: Clock;
}

/** How often the service is polled; more seldom with a plan limit, to leave calls for other work. */
const pollMs = secondMs;
const limitedPollMs = 5 * secondMs;
/** Forwarded deliveries remembered against repeats: far more than arrive between two polls. */
const seenMax = 10_000;

/**
 * `agent-trust webhooks listen`: forwards events to a program on this machine. The service cannot reach that
 * program, so the command polls: it creates a webhook without a URL, fetches its deliveries every second,
 * forwards each signed with the webhook's secret, and deletes the webhook at the end. A webhook left behind
 * by `kill -9` is disabled after an hour; after a longer sleep of the machine the next fetch enables it
 * again.
 *
 * Each event is forwarded once, in order of creation as far as known; a refused one is shown and not retried.
 */
export async function listenCommand(options: ListenOptions): Promise<void> {
  const { api, forwardTo, format = 'standard', signal, output, clock = systemClock } = options;
  checkForwardUrl(forwardTo);
  const events = checkEvents(options.events);
  const made = await callApi(api, 'POST', '/webhooks', {
    url: null,
    events,
    format,
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
        const { outcome } = await forwardEvent(forwardTo, {
          ...{ id, body, format, secret },
          ...{ nowMs: clock.now(), signal },
        });
        output.write(`${new Date(clock.now()).toISOString()}  ${event.padEnd(24)} ${id}  -> ${outcome}\n`);
      }
      // The signal ends the pause; the loop checks it.
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

/** New deliveries, oldest first. An error is shown and delays the next poll. */
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

/** Throws UsageError for an unknown event. Empty: all. */
export function checkEvents(names: readonly string[]): readonly WebhookEvent[] {
  const unknown = names.find((name) => !webhookEvents.some((event) => event === name));
  if (unknown !== undefined) {
    throw new UsageError(`"${unknown}" is not an event. Events: ${webhookEvents.join(', ')}`);
  }
  return names.length === 0 ? webhookEvents : webhookEvents.filter((event) => names.includes(event));
}
