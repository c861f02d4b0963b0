import { Registry } from 'prom-client';
import { Webhook as StandardWebhook } from 'standardwebhooks';
import { Compile } from 'typebox/compile';
import { expect } from 'vitest';
import { noAnswer, type Posted } from '../../../control-plane/outbox/attempt.ts';
import type { Attempt } from '../../../control-plane/outbox/outbox.ts';
import { startDeliveries } from '../../../control-plane/webhooks/deliver.ts';
import type { LockedDelivery } from '../../../control-plane/webhooks/delivery-queue.ts';
import type { UnixMillis } from '../../../shared/model/time.ts';
import { webhookBodies } from '../../../shared/wire/api/webhook-events.ts';
import { until } from '../base/until.ts';
import { closedThroughout } from '../data/document.ts';
import type { Received, Receiver } from '../peers/receiver.ts';
import type { Api, Reply } from './api.ts';

/**
 * What a receiver of webhooks makes of a delivery: the id and the event, once the library of the standard has
 * verified it.
 */
export interface VerifiedEvent {
  readonly id: string;
  readonly event: string;
  readonly timestamp: string;
  // biome-ignore lint/suspicious/noExplicitAny: data are inspected member by member in tests
  readonly data: any;
}

/**
 * Fails unless the delivery verifies with this secret, by a library that is not ours. The clock of a test may
 * be ahead. `since`: members that the event lacks, because it is older than they are.
 */
export function verified(
  received: Received,
  secret: string,
  since: Readonly<Record<string, unknown>> = {},
): VerifiedEvent {
  const id = String(received.headers['webhook-id']);
  const timestampS = Number(received.headers['webhook-timestamp']);
  const realNow = Date.now;
  // The library reads the clock itself; how old a message may be is tested with ours.
  Date.now = () => timestampS * 1_000;
  try {
    const headers = {
      'webhook-id': id,
      'webhook-timestamp': String(timestampS),
      'webhook-signature': String(received.headers['webhook-signature']),
    };
    const body = new StandardWebhook(secret).verify(received.body, headers) as Omit<VerifiedEvent, 'id'>;
    expect(Object.keys(body)).toEqual(['event', 'timestamp', 'data']);
    expectPublished({ ...body, data: { ...since, ...body.data } });
    return { id, ...body };
  } finally {
    Date.now = realNow;
  }
}

/** Fails unless the body is one that the document describes, with no member too many. */
function expectPublished(body: Omit<VerifiedEvent, 'id'>): void {
  const schema = closedThroughout(JSON.parse(JSON.stringify(webhookBodies))[body.event]);
  expect([body.event, ...Compile(schema).Errors(body)]).toEqual([body.event]);
}

/** All that arrived, verified, in order. */
export const verifiedAll = (receiver: Receiver, secret: string): VerifiedEvent[] =>
  receiver.received.map((each) => verified(each, secret));

export interface Endpoint {
  readonly id: string;
  readonly secret: string;
  readonly url: string;
  /** Of this endpoint, newest first. */
  deliveries(query?: string): Promise<Reply['body'][]>;
  get(): Promise<Reply['body']>;
}

/** Subscribes with the key (default: the operator's) to these events. */
export async function subscribe(
  api: Api,
  body: { readonly url: string | null; readonly events: readonly string[] },
  key = api.adminKey,
): Promise<Endpoint> {
  const made = await api.call({ url: '/v1/webhooks', body, key });
  expect(made.status, JSON.stringify(made.body)).toBe(201);
  const url = `/v1/webhooks/${made.body.webhook_id}`;
  return {
    id: made.body.webhook_id,
    secret: made.body.secret,
    url,
    deliveries: async (query = '') => (await api.call({ url: `${url}/deliveries${query}`, key })).body.items,
    get: async () => (await api.call({ url, key })).body,
  };
}

/** A replica that delivers, beside the API of a test. */
export const deliverer = (api: Api, replicaId = 'deliverer'): { stop(): Promise<void> } =>
  startDeliveries({ ...api.deps, metrics: new Registry(), replicaId, pollMs: 10 });

/** An attempt that nobody made, and the last one of its delivery. */
export const madeUp = (
  delivery: LockedDelivery,
  {
    atMs,
    statusCode,
    pausedUntilMs = null,
  }: { readonly atMs: UnixMillis; readonly statusCode: number; readonly pausedUntilMs?: UnixMillis | null },
): Attempt<LockedDelivery, Posted> => ({
  ...{ delivery, startedAtMs: atMs, endedAtMs: atMs, latencyMs: 1, nextAttemptAtMs: null, pausedUntilMs },
  answer: {
    ...{ ...noAnswer, statusCode, said: '', error: null },
    ...{ hasSucceeded: statusCode === 204, isGone: statusCode === 410 },
  },
});

export const arrived = (receiver: Receiver, count: number): Promise<void> =>
  until(() => receiver.received.length >= count, { what: `${count} deliveries` });
