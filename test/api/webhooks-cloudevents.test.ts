import { CloudEvent, HTTP } from 'cloudevents';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { listenCommand } from '../../cli/admin/webhooks-listen.ts';
import { triggerCommand } from '../../cli/admin/webhooks-trigger.ts';
import { verifyWebhook } from '../../clients/node/src/verify.ts';
import { limits } from '../../shared/model/limits.ts';
import { webhookEvents } from '../../shared/model/webhook.ts';
import { sampleData } from '../../shared/wire/api/webhook-samples.ts';
import { expectWithin, timed } from '../support/base/time-promise.ts';
import { until } from '../support/base/until.ts';
import { type Received, type Receiver, startReceiver } from '../support/peers/receiver.ts';
import { startOwnApi } from '../support/service/api.ts';
import { useApi } from '../support/service/use-api.ts';
import { deliverer, type Endpoint, subscribe, verified } from '../support/service/webhooks.ts';

/** Webhooks of the format `cloudevents`, read by the SDK of CloudEvents, which knows nothing of us. */
const api = useApi(() => startOwnApi({ outbound: { allowPrivate: true } }));
let origin: string;
let key: string;
let receiver: Receiver;
let running: { stop(): Promise<void> };

beforeAll(async () => {
  origin = await api.app.listen({ host: '127.0.0.1', port: 0 });
});
beforeEach(async () => {
  key = (await api.createAccount()).key;
  receiver = await startReceiver();
  running = deliverer(api);
});
afterEach(async () => {
  await running.stop();
  await receiver.close();
});

const format = 'cloudevents';
const hookFor = (events: readonly string[], more: object = { format }): Promise<Endpoint> =>
  subscribe(api, { url: receiver.url, events, ...more }, key);

/** As the SDK reads it; it throws for what the schema of CloudEvents does not take. */
function readBySdk({ headers, body }: Received): CloudEvent<Record<string, unknown>> {
  const event = HTTP.toEvent<Record<string, unknown>>({ headers, body });
  if (!(event instanceof CloudEvent)) throw new Error('it is a batch');
  event.validate();
  return event;
}

async function arrived(count: number): Promise<Received[]> {
  await until(() => receiver.received.length >= count, { what: `${count} deliveries` });
  expect(receiver.received).toHaveLength(count);
  return receiver.received;
}

const secretIn = (written: readonly string[]) => /whsec_\S+/.exec(written.join(''))?.[0] ?? '';

const ourVerdict = ({ headers, body }: Received, secret: string) => {
  const nowMs = Number(headers['webhook-timestamp']) * 1_000;
  return verifyWebhook(body, headers, secret, { nowMs });
};

describe('a webhook with the format cloudevents', () => {
  it('gets what happens as a CloudEvent, signed as others are, and again with the same id', async () => {
    const hook = await hookFor(['gate.created']);
    expect(await hook.get()).toMatchObject({ format });
    const { gate_id } = await api.createGate({ name: 'Größe' }, key);
    const [first] = await arrived(1);
    if (first === undefined) throw new Error('nothing arrived');
    expect(first.headers['content-type']).toBe('application/cloudevents+json; charset=utf-8');
    const event = readBySdk(first);
    expect(event).toMatchObject({
      specversion: '1.0',
      id: first.headers['webhook-id'],
      source: 'http://127.0.0.1:8080',
      type: 'agent-trust.gate.created',
      subject: gate_id,
      datacontenttype: 'application/json',
      data: { gate_id, name: 'Größe' },
    });
    const [delivery] = await hook.deliveries();
    expect(delivery.payload).toEqual(JSON.parse(first.body));
    expect(await ourVerdict(first, hook.secret)).toEqual({
      valid: true,
      id: event.id,
      event: 'gate.created',
      timestamp: event.time,
      data: event.data,
    });
    expect(await ourVerdict({ ...first, body: first.body.replace(gate_id, 'gate_x') }, hook.secret)).toEqual({
      valid: false,
      fault: 'signature_invalid',
    });

    const again = `/v1/webhooks/${hook.id}/deliveries/${delivery.delivery_id}/resend`;
    expect((await api.call({ method: 'POST', url: again, key })).status).toBe(200);
    const [, second] = await arrived(2);
    expect(second?.body).toBe(first.body);
  });

  it.each(webhookEvents)('is tested with one that the SDK takes: %s', async (name) => {
    const hook = await hookFor([name]);
    const sent = await api.call({ url: `/v1/webhooks/${hook.id}/test`, body: { event: name }, key });
    expect(sent.body.payload.type).toBe(`agent-trust.${name}`);
    const [received] = await arrived(1);
    if (received === undefined) throw new Error('nothing arrived');
    const event = readBySdk(received);
    expect([event.type, event.data]).toEqual([`agent-trust.${name}`, sampleData(name)]);
    expect(Object.values(sampleData(name))).toContain(event.subject);
    expect((await ourVerdict(received, hook.secret)).valid).toBe(true);
  });

  it('can be changed to and back, for what waits too', async () => {
    receiver.answer((response) => response.writeHead(500).end());
    const hook = await hookFor(['gate.created'], {});
    expect(await hook.get()).toMatchObject({ format: 'standard' });
    await api.createGate({}, key);
    const [plain] = await arrived(1);
    expect(verified(plain as Received, hook.secret).event).toBe('gate.created');
    receiver.answer((response) => response.writeHead(204).end());
    const change = { method: 'PUT', url: `/v1/webhooks/${hook.id}`, key } as const;
    expect((await api.call({ ...change, body: { format } })).body).toMatchObject({ format });
    expect((await api.call({ ...change, body: { description: 'x' } })).body).toMatchObject({ format });
    const [delivery] = await hook.deliveries();
    const again = `/v1/webhooks/${hook.id}/deliveries/${delivery.delivery_id}/resend`;
    expect((await api.call({ method: 'POST', url: again, key })).status).toBe(200);
    const [, changed] = await arrived(2);
    expect(readBySdk(changed as Received).data).toEqual(JSON.parse((plain as Received).body).data);
    const unknown = await api.call({ ...change, body: { format: 'xml' } });
    expect([unknown.status, unknown.body.error.param]).toEqual([400, 'format']);
  });
});

describe('commands with --format cloudevents', () => {
  it('forward to a program at the desk what an endpoint would get', async () => {
    const stop = new AbortController();
    const written: string[] = [];
    const output = { write: (text: string) => void written.push(text) };
    const listening = listenCommand({
      api: { origin, key },
      forwardTo: receiver.url,
      events: ['gate.created'],
      format,
      signal: stop.signal,
      output,
    });
    await until(() => written.join('').includes('Ctrl-C'), { what: 'the beginning' });
    const secret = secretIn(written);
    const { gate_id } = await api.createGate({}, key);
    const [received] = await arrived(1);
    stop.abort();
    await listening;
    expect(readBySdk(received as Received).subject).toBe(gate_id);
    expect((await ourVerdict(received as Received, secret)).valid).toBe(true);
  });

  it('send a sample from here', async () => {
    const written: string[] = [];
    const code = await triggerCommand({
      event: 'passport.revoked',
      forwardTo: receiver.url,
      secret: null,
      format,
      api: () => Promise.reject(new Error('it asks nobody')),
      output: { write: (text: string) => void written.push(text) },
    });
    expect(code).toBe(0);
    const [received] = await arrived(1);
    expect(readBySdk(received as Received).type).toBe('agent-trust.passport.revoked');
    const secret = secretIn(written);
    expect((await ourVerdict(received as Received, secret)).valid).toBe(true);
  });
});

it('`webhooks listen` ends at once and leaves nothing behind, also while the program at the address hangs', async () => {
  receiver.answer(() => undefined);
  let seen = 0;
  await expectWithin(limits.webhookTimeoutMs / 2, 'it ends', async () => {
    const { key: own } = await api.createAccount();
    const stop = new AbortController();
    const written: string[] = [];
    const listening = listenCommand({
      api: { origin, key: own },
      forwardTo: receiver.url,
      events: ['gate.created'],
      signal: stop.signal,
      output: { write: (text: string) => void written.push(text) },
    });
    await until(() => written.join('').includes('Ctrl-C'), { what: 'the beginning' });
    for (let n = 0; n < 3; n++) await api.createGate({}, own);
    await until(() => receiver.received.length > seen, { what: 'an event' });
    const time = await timed(() => {
      stop.abort();
      return listening;
    });
    seen += 1;
    expect(receiver.received).toHaveLength(seen);
    expect((await api.call({ url: '/v1/webhooks', key: own })).body.total).toBe(0);
    return time;
  });
});
