import { afterAll, beforeAll, expect, it } from 'vitest';
import { channelsLimits } from '../../control-plane/channels/limits.ts';
import { hourMs } from '../../shared/model/time.ts';
import { type Api, startApi } from '../support/api.ts';
import { openAnApproval } from '../support/approvals.ts';
import { addChannel, messenger, type TestChannel, toldIn } from '../support/channels.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { until } from '../support/until.ts';

/** Ten times what an account has waiting on a bad day. */
const approvals = 1_000;
const passports = 10;

let api: Api;
let works: Receiver;
let hangs: Receiver;
let limited: Receiver;
beforeAll(async () => {
  api = await startApi({ outbound: { allowPrivate: true } });
  [works, hangs, limited] = await Promise.all([startReceiver(), startReceiver(), startReceiver()]);
  hangs.answer(() => undefined);
  limited.answer((response) => response.writeHead(429, { 'retry-after': '3600' }).end('rate_limited'));
});
afterAll(async () => {
  await Promise.all([works, hangs, limited].map((each) => each.close()));
  await api.close();
});

it('a thousand approvals that wait at once are told by few messages of the channel that works, and no more than a few attempts the others', async () => {
  const channels: TestChannel[] = [];
  for (const { url } of [works, hangs, limited])
    channels.push(await addChannel(api, { kind: 'slack', target: url }));
  const { gate_id: gateId } = await api.createGate();
  const ask = async () => {
    const { passport_id: passportId } = await api.issuePassport();
    for (let count = 0; count < approvals / passports; count++)
      await openAnApproval(api, { gateId, passportId, amountUsd: 0.01, expiresInMs: hourMs });
  };
  await Promise.all(Array.from({ length: passports }, ask));
  const running = messenger(api);
  // Each message tells of one, and of those that it speaks for.
  const told = () => works.received.reduce((sum, { body }) => sum + toldIn(JSON.parse(body).text), 0);
  await until(() => told() === approvals, { what: 'all approvals told', timeoutMs: 120_000 });
  expect(works.received.length).toBeLessThanOrEqual(2 * channelsLimits.channelConcurrencyMax);
  const [first] = channels;
  const isRecorded = async () => {
    const [sent] = await api.deps.sql<{ count: number }[]>`
      SELECT count(*) FROM channel_messages WHERE channel_id = ${first?.id ?? ''} AND status = 'sent'`;
    return sent?.count === approvals;
  };
  await until(isRecorded, { what: 'all messages recorded as sent' });
  // Those in flight, and what time-outs of ten seconds have let follow them meanwhile.
  expect(hangs.received.length).toBeLessThan(10 * channelsLimits.channelConcurrencyMax);
  expect(limited.received.length).toBeLessThanOrEqual(2 * channelsLimits.channelConcurrencyMax);
  const [answer] = (await api.call({ url: '/v1/approvals?status=pending&limit=1' })).body.items;
  const approve = { method: 'POST', url: `/v1/approvals/${answer.approval_id}/approve` };
  expect((await api.call(approve)).status).toBe(200);
  await running.stop();
}, 240_000);
