import { Registry } from 'prom-client';
import { expect } from 'vitest';
import { startChannelMessages } from '../../../control-plane/channels/deliver-messages.ts';
import type { Api, Reply } from './api.ts';

export interface TestChannel {
  readonly id: string;
  readonly url: string;
  readonly secret: string;
  get(): Promise<Reply['body']>;
}

let added = 0;

/** Adds a channel with the key (default: the operator's). */
export async function addChannel(
  api: Api,
  body: { readonly kind: string; readonly target: string; readonly [name: string]: unknown },
  key = api.adminKey,
): Promise<TestChannel> {
  const made = await api.call({ url: '/v1/channels', body: { name: `channel ${++added}`, ...body }, key });
  expect(made.status, JSON.stringify(made.body)).toBe(201);
  const url = `/v1/channels/${made.body.channel_id}`;
  return {
    id: made.body.channel_id,
    url,
    secret: made.body.secret,
    get: async () => (await api.call({ url, key })).body,
  };
}

/**
 * How many approvals a message to people tells of: its own, and those that it speaks for. `text` has one line
 * for each fact.
 */
export function toldIn(text: string): number {
  const digest = /\b(\d+) requests (?:wait|ended)\b/.exec(text)?.[1];
  return digest === undefined ? 1 + Number(/^And: +`?(\d+) more/m.exec(text)?.[1] ?? 0) : Number(digest);
}

/** A replica that sends messages, beside the API of a test. */
export const messenger = (
  api: Api,
  replicaId = 'messenger',
  more: Partial<Parameters<typeof startChannelMessages>[0]> = {},
): { stop(): Promise<void> } =>
  startChannelMessages({ ...api.deps, metrics: new Registry(), replicaId, ...more });
