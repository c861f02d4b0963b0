import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { listenCommand } from '../../control-plane/cli/webhooks-listen.ts';
import { limits } from '../../shared/model/limits.ts';
import { type Api, startApi } from '../support/api.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { expectWithin, timed } from '../support/time-promise.ts';
import { until } from '../support/until.ts';

/** `agent-trust webhooks listen` against a control plane on a socket. */
let api: Api;
let origin: string;
let receiver: Receiver;

beforeAll(async () => {
  api = await startApi();
  await api.app.listen({ host: '127.0.0.1', port: 0 });
  origin = `http://127.0.0.1:${(api.app.server.address() as AddressInfo).port}`;
});
afterAll(() => api.close());
beforeEach(async () => {
  receiver = await startReceiver();
});
afterEach(() => receiver.close());

it('ends at once and leaves nothing behind, also while the program at the address hangs', async () => {
  receiver.answer(() => undefined);
  let seen = 0;
  await expectWithin(limits.webhookTimeoutMs / 2, 'it ends', async () => {
    const { key } = await api.createAccount();
    const stop = new AbortController();
    const written: string[] = [];
    const listening = listenCommand({
      api: { origin, key },
      forwardTo: receiver.url,
      events: ['gate.created'],
      signal: stop.signal,
      output: { write: (text: string) => void written.push(text) },
    });
    await until(() => written.join('').includes('Ctrl-C'), { what: 'the beginning' });
    for (let n = 0; n < 3; n++) await api.createGate({}, key);
    await until(() => receiver.received.length > seen, { what: 'an event' });
    const time = await timed(() => {
      stop.abort();
      return listening;
    });
    seen += 1;
    expect(receiver.received).toHaveLength(seen);
    expect((await api.call({ url: '/v1/webhooks', key })).body.total).toBe(0);
    return time;
  });
});
