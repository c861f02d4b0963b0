import { afterAll, beforeAll, expect, it } from 'vitest';
import { channelsLimits } from '../../control-plane/channels/limits.ts';
import { smtpMailer } from '../../control-plane/channels/mailer.ts';
import { hourMs, minuteMs, secondMs } from '../../shared/model/time.ts';
import { type Api, startApi } from '../support/api.ts';
import { openAnApproval } from '../support/approvals.ts';
import { addChannel, messenger, type TestChannel, toldIn } from '../support/channels.ts';
import { type MailServer, startMailServer } from '../support/mail-server.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { until } from '../support/until.ts';

const approvals = 1_000;
const seconds = 60;
const escalationS = 20;
/** Beginnings and ends take turns, so what is due waits for two messages at most. */
const untoldMsMax = 2 * channelsLimits.channelMessageEveryMs;
const perMinuteMax = channelsLimits.channelBurstMax + minuteMs / channelsLimits.channelMessageEveryMs;

let api: Api;
let chat: Receiver;
let program: Receiver;
let mails: MailServer;
beforeAll(async () => {
  mails = await startMailServer();
  api = await startApi({
    outbound: { allowPrivate: true },
    mailer: smtpMailer({
      server: { host: '127.0.0.1', port: mails.port, user: null, password: null, tls: 'none' },
      from: 'approvals@example.com',
      timeoutMs: 10_000,
    }),
  });
  api.stopClock();
  [chat, program] = await Promise.all([startReceiver(), startReceiver()]);
});
afterAll(async () => {
  await Promise.all([chat.close(), program.close(), mails.close()]);
  await api.close();
});

/** The longest that a message of the channel is due and not sent. What has ended untold is never told. */
async function longestUntoldMs({ id }: TestChannel): Promise<number> {
  const [row] = await api.deps.sql<{ ms: number }[]>`
    SELECT coalesce(max(${api.deps.clock.now()} - m.due_at_ms), 0)::bigint AS ms
    FROM channel_messages m JOIN approvals a USING (approval_id)
    WHERE m.channel_id = ${id} AND m.status = 'pending' AND CASE WHEN m.event = 'approval.requested'
      THEN a.status = 'pending'
      ELSE EXISTS (SELECT FROM channel_messages f WHERE f.approval_id = m.approval_id
        AND f.channel_id = ${id} AND f.event = 'approval.requested' AND f.status = 'sent') END`;
  return row?.ms ?? 0;
}

const sentTo = async ({ id }: TestChannel, event: string): Promise<number> =>
  (
    await api.deps
      .sql`SELECT FROM channel_messages WHERE channel_id = ${id} AND event = ${event} AND status = 'sent'`
  ).count;

/** In any minute, of moments in ascending order. */
const mostInAMinute = (atMs: readonly number[]): number =>
  Math.max(...atMs.map((from, place) => atMs.slice(place).filter((each) => each < from + minuteMs).length));

it('a thousand approvals, one by one over a minute, are told by few messages and in time, and escalate in time', async () => {
  const slack = await addChannel(api, { kind: 'slack', target: chat.url });
  const events = ['approval.requested'];
  const mail = await addChannel(api, {
    ...{ kind: 'email', target: 'jane@example.com', after_s: escalationS, events },
  });
  const plain = await addChannel(api, { kind: 'webhook', target: program.url, events });
  const { gate_id: gateId } = await api.createGate();
  const passports: string[] = [];
  for (let each = 0; each < 12; each++) passports.push((await api.issuePassport()).passport_id);
  const running = messenger(api);
  const arrivals = { chat: [] as number[], mail: [] as number[] };
  const note = () => {
    const nowMs = api.deps.clock.now();
    while (arrivals.chat.length < chat.received.length) arrivals.chat.push(nowMs);
    while (arrivals.mail.length < mails.mails.length) arrivals.mail.push(nowMs);
  };
  /** Lets a second pass, in which everybody has time for what is due. */
  const second = async () => {
    for (const channel of [slack, mail])
      await until(async () => (await longestUntoldMs(channel)) <= untoldMsMax, {
        what: 'nothing untold for long',
      });
    note();
    api.advance(secondMs);
  };
  let opened = 0;
  const denied: string[] = [];
  for (let passed = 0; passed < seconds; passed++) {
    const due = Math.floor(((passed + 1) * approvals) / seconds) - opened;
    const waiting = await Promise.all(
      Array.from({ length: due }, (_, place) =>
        openAnApproval(api, {
          ...{ gateId, passportId: passports[(opened + place) % passports.length] ?? '' },
          ...{ amountUsd: 0.01, expiresInMs: hourMs },
        }),
      ),
    );
    opened += due;
    if (waiting[0] !== undefined) denied.push(waiting[0].approvalId);
    if (passed < escalationS) expect(mails.mails).toEqual([]);
    if (passed % 10 === 9)
      for (const id of denied.splice(0))
        expect((await api.call({ url: `/v1/approvals/${id}/deny`, body: {} })).status).toBe(200);
    await second();
  }
  expect(opened).toBe(approvals);
  for (let passed = 0; passed < 2 * escalationS + untoldMsMax / secondMs; passed++) await second();
  for (const channel of [slack, mail]) expect(await longestUntoldMs(channel)).toBe(0);
  note();

  const chatTexts = chat.received.map(({ body }): string => JSON.parse(body).text);
  const told = chatTexts.reduce((sum, text) => sum + toldIn(text), 0);
  expect(told).toBe((await sentTo(slack, 'approval.requested')) + (await sentTo(slack, 'approval.resolved')));
  const [cancelled] = await api.deps.sql<{ count: number }[]>`
    SELECT count(*) FROM channel_messages WHERE channel_id = ${slack.id} AND status = 'cancelled'`;
  // Those that were denied before they were told.
  expect((await sentTo(slack, 'approval.requested')) + Number(cancelled?.count) / 2).toBe(approvals);
  const mailed = mails.mails.reduce((sum, { source }) => sum + toldIn(source), 0);
  expect(mailed).toBe(await sentTo(mail, 'approval.requested'));
  expect(mailed).toBeGreaterThan(approvals * 0.9);
  expect(mostInAMinute(arrivals.chat)).toBeLessThanOrEqual(perMinuteMax);
  expect(mostInAMinute(arrivals.mail)).toBeLessThanOrEqual(perMinuteMax);
  const digests = chatTexts.filter((text) => /requests (?:wait|ended)/.test(text));
  expect(digests.length).toBeGreaterThan(0);
  for (const digest of digests) expect(digest).toMatch(/<[^|]+\/console\/approvals\|/);
  // Each of them, but for those that were denied in the second in which they were opened.
  const [untold] = await api.deps.sql<{ count: number }[]>`
    SELECT count(*) FROM channel_messages WHERE channel_id = ${plain.id} AND status = 'cancelled'`;
  const toPlain = approvals - Number(untold?.count);
  expect(toPlain).toBeGreaterThan(approvals * 0.9);
  await until(() => program.received.length === toPlain, { what: 'each approval at the program' });
  await running.stop();
}, 240_000);
