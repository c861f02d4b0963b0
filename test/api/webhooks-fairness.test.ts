import type { ServerResponse } from 'node:http';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { readQueues } from '../../control-plane/webhooks/delivery-queue.ts';
import { webhooksLimits } from '../../control-plane/webhooks/limits.ts';
import { limits } from '../../shared/model/limits.ts';
import { type Api, startApi } from '../support/api.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { expectWithin, timed } from '../support/time-promise.ts';
import { until } from '../support/until.ts';
import { deliverer, subscribe } from '../support/webhooks.ts';

/** What some accounts do to the deliveries of others. */
let api: Api;
let receiver: Receiver;
let control: Receiver;
let running: { stop(): Promise<void> };

beforeAll(async () => {
  api = await startApi({ outbound: { allowPrivate: true } });
});
afterAll(() => api.close());
beforeEach(async () => {
  receiver = await startReceiver();
  control = await startReceiver();
  running = deliverer(api);
});
afterEach(async () => {
  await running.stop();
  await receiver.close();
  await control.close();
});

const events = ['gate.created'];

/**
 * So many endpoints that hang, each with more deliveries than it may have under way. They hang until
 * `receiver` is closed.
 */
async function hanging(endpoints: number): Promise<{ readonly held: readonly ServerResponse[] }> {
  const held: ServerResponse[] = [];
  receiver.answer((response, { path }) => {
    if (path === '/dead') held.push(response);
    else response.writeHead(204).end();
  });
  for (let made = 0; made < endpoints; made += webhooksLimits.webhooksPerAccountMax) {
    const { key } = await api.createAccount();
    for (let n = made; n < Math.min(endpoints, made + webhooksLimits.webhooksPerAccountMax); n++) {
      await subscribe(api, { url: receiver.url.replace('/hook', '/dead'), events }, key);
    }
    for (let n = 0; n <= webhooksLimits.webhookConcurrencyMax; n++) await api.createGate({}, key);
  }
  return { held };
}

/** An event of another account is at its endpoint there before an attempt that hangs is over. */
async function expectPrompt(healthy: Receiver): Promise<void> {
  await expectWithin(limits.webhookTimeoutMs / 2, 'an event is delivered', async () => {
    const { key } = await api.createAccount();
    await subscribe(api, { url: healthy.url, events }, key);
    const received = () => healthy.received.filter(({ path }) => path === '/hook').length;
    const before = received();
    return timed(async () => {
      await api.createGate({}, key);
      await until(() => received() > before, { what: 'the event of the healthy endpoint' });
    });
  });
}

describe('an endpoint that works', () => {
  it('does not wait for some that hang on the same host', async () => {
    const { held } = await hanging(4);
    await until(() => held.length >= 32, { what: 'attempts that hang' });
    await expectPrompt(receiver);
  });

  it('does not wait for three accounts full of endpoints that hang', async () => {
    const { held } = await hanging(3 * webhooksLimits.webhooksPerAccountMax);
    await until(() => held.length >= webhooksLimits.webhookAttemptsAtOnceMax / 2, {
      what: 'attempts that hang',
    });
    await expectPrompt(control);
  });
});

describe('endpoints that were deleted', () => {
  it('leave no queue behind that delays others', async () => {
    await receiver.close();
    const { key } = await api.createAccount();
    const hook = await subscribe(api, { url: receiver.url, events }, key);
    await api.createGate({}, key);
    const waits = async () =>
      (await readQueues(api.deps.sql, { after: '', nowMs: api.deps.clock.now() })).some(
        ({ endpointId }) => endpointId === hook.id,
      );
    await until(async () => (await hook.deliveries())[0]?.attempt_count === 1, { what: 'a failure' });
    // Control: what has failed waits for its next attempt.
    expect(await waits()).toBe(true);
    await api.call({ method: 'DELETE', url: hook.url, key });
    await until(async () => !(await waits()), { what: 'the end of the queue' });
  });
});
