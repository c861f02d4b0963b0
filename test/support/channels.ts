import { Registry } from 'prom-client';
import { expect } from 'vitest';
import { startChannelMessages } from '../../control-plane/channels/deliver-messages.ts';
import type { Api, Reply } from './api.ts';

export interface TestChannel {
  readonly id: string;
  readonly url: string;
  readonly secret: string;
  get(): Promise<Reply['body']>;
}

/** Adds a channel with the key (default: the operator's). */
export async function addChannel(
  api: Api,
  body: { readonly kind: string; readonly target: string; readonly [name: string]: unknown },
  key = api.adminKey,
): Promise<TestChannel> {
  const made = await api.call({ url: '/v1/channels', body: { name: 'a channel', ...body }, key });
  expect(made.status, JSON.stringify(made.body)).toBe(201);
  const url = `/v1/channels/${made.body.channel_id}`;
  return {
    id: made.body.channel_id,
    url,
    secret: made.body.secret,
    get: async () => (await api.call({ url, key })).body,
  };
}

/** A replica that sends messages, beside the API of a test. */
export const messenger = (
  api: Api,
  replicaId = 'messenger',
  more: Partial<Parameters<typeof startChannelMessages>[0]> = {},
): { stop(): Promise<void> } =>
  startChannelMessages({ ...api.deps, metrics: new Registry(), replicaId, ...more });
