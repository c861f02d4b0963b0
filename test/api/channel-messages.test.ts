import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { expireApprovals } from '../../control-plane/approvals/expire-approvals.ts';
import { channelsLimits } from '../../control-plane/channels/limits.ts';
import { lockMessages, messageQueues } from '../../control-plane/channels/message-queue.ts';
import { noAnswer } from '../../control-plane/outbox/attempt.ts';
import { outboxLimits } from '../../control-plane/outbox/limits.ts';
import { settle } from '../../control-plane/outbox/queues.ts';
import { must } from '../../shared/errors/assert.ts';
import { approvalUndoMs } from '../../shared/model/approval.ts';
import { dayMs, hourMs, minuteMs, secondMs } from '../../shared/model/time.ts';
import { until } from '../support/base/until.ts';
import { type Receiver, startReceiver } from '../support/peers/receiver.ts';
import { startOwnApi } from '../support/service/api.ts';
import { goToNoon, openAnApproval } from '../support/service/approvals.ts';
import { addChannel, messenger, toldIn } from '../support/service/channels.ts';
import { useApi, useStarted } from '../support/service/use-api.ts';
import { arrived, verified } from '../support/service/webhooks.ts';

/**
 * Messages to real receivers. No time passes but what a test lets pass: what is due is due because the test
 * says so.
 */
const api = useApi(() => startOwnApi({ outbound: { allowPrivate: true } }));
let key: string;
let one: Receiver;
let two: Receiver;
let running: { stop(): Promise<void> };
/** Of another account, whose channel works. */
const control = useStarted(startReceiver);
let controlKey: string;

beforeAll(async () => {
  goToNoon(api);
  api.stopClock();
  controlKey = (await api.createAccount()).key;
  const target = { kind: 'webhook', target: control.url, events: ['approval.requested'] };
  await addChannel(api, target, controlKey);
});
beforeEach(async () => {
  key = (await api.createAccount()).key;
  one = await startReceiver();
  two = await startReceiver();
  running = replica();
});
afterEach(async () => {
  await running.stop();
  await one.close();
  await two.close();
});

const replica = (id?: string) => messenger(api, id, { pollMs: 10 });
const slackAt = (at: Receiver, more: object = {}) =>
  addChannel(api, { kind: 'slack', target: at.url, ...more }, key);
const open = (more: Partial<Parameters<typeof openAnApproval>[1]> = {}) =>
  openAnApproval(api, { key, expiresInMs: hourMs, ...more });
const answer = (id: string, word: string, body?: object) =>
  api.call({ method: 'POST', url: `/v1/approvals/${id}/${word}`, key, ...(body && { body }) });
/** A sweep ends twenty, of those that other tests have left, too. */
const expireAll = async () => {
  while ((await expireApprovals(api.deps)) > 0);
};
/** Until the answer stands. */
const stand = () => api.advance(approvalUndoMs + channelsLimits.channelEndMarginMs);
const texts = (at: Receiver): string[] => at.received.map(({ body }) => JSON.parse(body).text);
/** How many approvals the messages tell of: each its own, and those that it speaks for. */
const told = (at: Receiver): number => texts(at).reduce((sum, text) => sum + toldIn(text), 0);
/** Every channel for people may have one more message. */
const mayHaveOneMore = () => api.advance(channelsLimits.channelMessageEveryMs);
interface MessageRow {
  readonly event: string;
  readonly status: string;
  readonly tries: number;
}
const messages = (approvalId: string, channelId: string) =>
  api.deps.sql<MessageRow[]>`
    SELECT event, status, tries FROM channel_messages
    WHERE approval_id = ${approvalId} AND channel_id = ${channelId} ORDER BY event`;
const settled = (approvalId: string, channelId: string, count: number) =>
  until(
    async () => {
      const rows = await messages(approvalId, channelId);
      return rows.length === count && rows.every(({ status }) => status !== 'pending');
    },
    { what: `${count} settled messages` },
  );
/** Everything that is due was looked at: another account's messages, queued after it, have arrived. */
async function looked(): Promise<void> {
  for (let count = 1; count <= 2; count++) {
    const before = control.received.length;
    await openAnApproval(api, { key: controlKey, expiresInMs: 10 * secondMs });
    await arrived(control, before + 1);
  }
}

describe('a message', () => {
  it('says who asks for what, how much, where and until when, with one link', async () => {
    await slackAt(one);
    const gate = await api.createGate({ name: 'Orders' }, key);
    const passport = await api.issuePassport({ agent_id: 'buyer-7', agent_name: 'Buyer' }, key);
    const { approvalId, expiresAtMs } = await open({
      ...{ gateId: gate.gate_id, passportId: passport.passport_id, amountUsd: 234.5 },
      display: {
        title: 'Order 20 chairs',
        lines: [{ label: 'Supplier', value: 'Nordwind' }],
        url: 'https://shop.example.com/orders/20',
      },
    });
    await arrived(one, 1);
    const until = new Date(expiresAtMs).toISOString().slice(0, 16).replace('T', ' ');
    expect(texts(one)[0]?.split('\n')).toEqual([
      '*Approval needed:* `Order 20 chairs`',
      'Amount: `234.50 USD`',
      'Agent: `Buyer (buyer-7)`',
      'Gate: `Orders`',
      'Permission: `orders:create`',
      `Answer until: \`${until} UTC\``,
      'The requester says:',
      '> `Supplier` `Nordwind`',
      `<http://127.0.0.1:8080/console/approvals/${approvalId}|Answer in the console>`,
    ]);
  });

  it('makes no link, mention or format of what others wrote', async () => {
    await slackAt(one);
    await open({
      display: {
        title: '<https://evil.example|Answer in the console> `x` *b* <!channel> @here &amp;',
        lines: [{ label: '[click](https://evil.example)', value: '``` <@U1>' }],
        url: null,
      },
    });
    await arrived(one, 1);
    const [text = ''] = texts(one);
    expect(text.match(/<[^>]*>/g)).toHaveLength(1);
    expect(text).toContain(
      "`&lt;https://evil.example|Answer in the console&gt; 'x' *b* &lt;!channel&gt; @here &amp;amp;`",
    );
    // Outside of code spans there is nothing of theirs.
    const ours = text.replace(/`[^`]*`/g, '');
    expect(ours).not.toMatch(/evil|here|channel|U1|\[/);
  });

  it('of a plain webhook is the signed event', async () => {
    const hook = await addChannel(api, { kind: 'webhook', target: one.url }, key);
    const { approvalId } = await open();
    await arrived(one, 1);
    const first = verified(must(one.received[0], 'a message'), hook.secret);
    expect(first).toMatchObject({
      event: 'approval.requested',
      data: { approval_id: approvalId, status: 'pending' },
    });
    const { headers, userId } = await api.createUser({ role: 'owner' }, key);
    const url = `/v1/approvals/${approvalId}/deny`;
    const denied = await api.call({ method: 'POST', url, key: null, headers, body: { note: 'Too dear' } });
    stand();
    await arrived(one, 2);
    const second = verified(must(one.received[1], 'a message'), hook.secret);
    expect(second).toMatchObject({ event: 'approval.resolved', data: denied.body });
    expect(second.data).toMatchObject({
      status: 'denied',
      note: 'Too dear',
      answers: [{ user_id: userId, answer: 'denied', note: 'Too dear' }],
    });
    expect(second.id).not.toBe(first.id);
  });
});

describe('the end', () => {
  it.each([
    ['approve', 'Approved'],
    ['deny', 'Denied'],
  ])('is told where the beginning was sent: %s, by whom and with which note', async (word, headline) => {
    const channel = await slackAt(one);
    const { approvalId } = await open();
    await arrived(one, 1);
    const person = await api.createUser({ role: 'owner' }, key);
    const headers = person.headers;
    const url = `/v1/approvals/${approvalId}/${word}`;
    const body = { note: 'Seen & <noted>' };
    expect((await api.call({ method: 'POST', url, key: null, headers, body })).status).toBe(200);
    await looked();
    // It could still be undone.
    expect(one.received).toHaveLength(1);
    stand();
    await arrived(one, 2);
    const [, text = ''] = texts(one);
    expect(text).toMatch(new RegExp(`^\\*${headline}:\\*`));
    expect(text).toContain('Answered by: `Somebody`');
    expect(text).toContain('Note: `Seen &amp; &lt;noted&gt;`');
    await settled(approvalId, channel.id, 2);
    // The PERMIT, or the expiry of an approval that was not used, tells nothing further.
    api.advance(2 * hourMs);
    await expireAll();
    await looked();
    expect(one.received).toHaveLength(2);
  });

  it('is told once, as it stands, where an answer was undone and given anew', async () => {
    const channel = await slackAt(one);
    await slackAt(two, { after_s: 4 });
    const { approvalId } = await open();
    await arrived(one, 1);
    await answer(approvalId, 'approve');
    // What is due meanwhile is not sent: the approval is not pending.
    api.advance(4 * secondMs);
    await looked();
    expect(two.received).toHaveLength(0);
    expect((await answer(approvalId, 'undo')).status).toBe(200);
    await arrived(two, 1);
    stand();
    await looked();
    expect(one.received).toHaveLength(1);
    await answer(approvalId, 'deny');
    stand();
    await arrived(one, 2);
    await arrived(two, 2);
    expect(texts(one)[1]).toMatch(/^\*Denied:/);
    await settled(approvalId, channel.id, 2);
  });

  it('is told to no channel that wants only beginnings', async () => {
    await slackAt(one, { events: ['approval.requested'] });
    await slackAt(two);
    const { approvalId } = await open();
    await arrived(one, 1);
    await arrived(two, 1);
    await answer(approvalId, 'approve');
    stand();
    await arrived(two, 2);
    await looked();
    expect(one.received).toHaveLength(1);
  });
});

describe('escalation', () => {
  it('tells the next channel what still waits after its time, and stops with the approval', async () => {
    await slackAt(one);
    const later = await slackAt(two, { after_s: 600 });
    const first = await open();
    const second = await open();
    await arrived(one, 2);
    api.advance(599 * secondMs);
    await looked();
    expect(two.received).toHaveLength(0);
    await answer(first.approvalId, 'approve');
    api.advance(secondMs);
    await arrived(two, 1);
    const isCancelled = async () => (await messages(first.approvalId, later.id))[0]?.status === 'cancelled';
    await until(isCancelled, { what: 'a cancelled message' });
    expect(texts(two)[0]).toContain(second.approvalId);
    stand();
    // The end of the first is told to nobody who was not told of its beginning.
    await arrived(one, 3);
    await settled(first.approvalId, later.id, 2);
    expect(await messages(first.approvalId, later.id)).toMatchObject([
      { event: 'approval.requested', status: 'cancelled' },
      { event: 'approval.resolved', status: 'cancelled' },
    ]);
    expect(two.received).toHaveLength(1);
  });

  it('uses the channels of a gate in place of those of its account, while one of them is enabled', async () => {
    await slackAt(one);
    const gate = await api.createGate({}, key);
    const own = await slackAt(two, { gate_id: gate.gate_id });
    const ask = () => open({ gateId: gate.gate_id });
    await ask();
    await arrived(two, 1);
    await open();
    await arrived(one, 1);
    await api.call({ method: 'PATCH', url: own.url, key, body: { status: 'disabled' } });
    await ask();
    await arrived(one, 2);
    await looked();
    expect([one.received.length, two.received.length]).toEqual([2, 1]);
  });

  it('is at a channel of the gate’s own account and mode alone', async () => {
    await slackAt(one);
    const other = await api.createAccount();
    await openAnApproval(api, { key: other.key });
    await looked();
    expect(one.received).toEqual([]);
  });
});

describe('a channel that fails', () => {
  it('shows why, is tried again, delays no other, and tells once it is up', async () => {
    one.answer((response) => response.writeHead(500).end('down for <b>repair</b>'));
    const channel = await slackAt(one);
    await slackAt(two);
    const { approvalId } = await open({ expiresInMs: 5 * hourMs });
    await arrived(one, 1);
    await arrived(two, 1);
    await until(async () => (await channel.get()).failures === 1, { what: 'a failure' });
    expect(await channel.get()).toMatchObject({
      ...{ status: 'enabled', last_sent_at: null },
      last_error: { code: 'bad_answer', detail: 'HTTP 500 down for <b>repair</b>' },
    });
    // An hour of failures, then it is up.
    for (let minutes = 0; minutes < 60; minutes += 10) {
      const before = one.received.length;
      api.advance(11 * minuteMs);
      await arrived(one, before + 1);
      await until(async () => (await messages(approvalId, channel.id))[0]?.tries === before + 1, {
        what: 'a recorded attempt',
      });
    }
    one.answer((response) => response.writeHead(200).end('ok'));
    api.advance(11 * minuteMs);
    await settled(approvalId, channel.id, 1);
    expect(await channel.get()).toMatchObject({ failures: 0, failing_since: null, last_error: null });
    const ids = new Set(texts(one));
    expect(ids.size).toBe(1);
  });

  it('waits as long as Slack asks, with all its messages', async () => {
    one.answer((response) => response.writeHead(429, { 'retry-after': '90' }).end('rate_limited'));
    const channel = await slackAt(one);
    await open();
    await arrived(one, 1);
    await until(async () => (await channel.get()).failures === 1, { what: 'a failure' });
    one.answer((response) => response.writeHead(200).end('ok'));
    await open();
    api.advance(89 * secondMs);
    await looked();
    expect(one.received).toHaveLength(1);
    api.advance(secondMs);
    await arrived(one, 3);
  });

  it.each([
    [410, 'channel_is_archived'],
    [404, 'no_service'],
  ])('is disabled where its address is no more: %i %s', async (status, body) => {
    one.answer((response) => response.writeHead(status).end(body));
    const channel = await slackAt(one);
    const { approvalId } = await open();
    await until(async () => (await channel.get()).status === 'disabled', { what: 'a disabled channel' });
    expect(await channel.get()).toMatchObject({ disabled_reason: 'gone' });
    expect(await messages(approvalId, channel.id)).toMatchObject([{ status: 'failed' }]);
  });

  it('is disabled after three days without success, and begins anew when it is enabled', async () => {
    one.answer((response) => response.writeHead(500).end());
    const channel = await slackAt(one);
    await open();
    await until(async () => (await channel.get()).failures === 1, { what: 'a failure' });
    api.advance(outboxLimits.failingMsMax);
    await open();
    await until(async () => (await channel.get()).status === 'disabled', { what: 'a disabled channel' });
    expect((await channel.get()).disabled_reason).toBe('failing');
    one.answer((response) => response.writeHead(200).end());
    await api.call({ method: 'PATCH', url: channel.url, key, body: { status: 'enabled' } });
    expect(await channel.get()).toMatchObject({ failures: 0, failing_since: null, last_error: null });
    const before = one.received.length;
    await open();
    await arrived(one, before + 1);
  });

  it('that hangs delays no other channel, no approval and no answer', async () => {
    one.answer(() => undefined);
    await slackAt(one);
    await slackAt(two);
    const asked = await Promise.all(Array.from({ length: 20 }, () => open()));
    mayHaveOneMore();
    await until(() => told(two) === 20, { what: 'all told' });
    for (const { approvalId } of asked.slice(0, 3))
      expect((await answer(approvalId, 'approve')).status).toBe(200);
    expect(one.received.length).toBeLessThanOrEqual(channelsLimits.channelConcurrencyMax);
  });
});

describe('a flood', () => {
  const statuses = async (channelId: string) => {
    const rows = await api.deps.sql<{ status: string; count: number }[]>`
      SELECT status, count(*) FROM channel_messages WHERE channel_id = ${channelId} GROUP BY status`;
    return Object.fromEntries(rows.map(({ status, count }) => [status, count]));
  };
  const flood = async (count: number, more: Parameters<typeof open>[0] = {}) => {
    const { gateId, passportId } = await open({ amountUsd: 1, ...more });
    for (let each = 1; each < count; each++) await open({ gateId, passportId, amountUsd: 1, ...more });
  };

  it('is told to people in a few messages, and to programs one by one', async () => {
    await running.stop();
    const channel = await slackAt(one);
    await addChannel(api, { kind: 'webhook', target: two.url }, key);
    await flood(41);
    running = replica();
    await arrived(two, 41);
    await until(async () => (await statuses(channel.id))['sent'] === 41, { what: 'all sent' });
    expect(one.received.length).toBeLessThanOrEqual(channelsLimits.channelConcurrencyMax);
    expect(told(one)).toBe(41);
    const [digest, ...others] = texts(one).filter((text) => text.includes('requests wait'));
    expect(others).toEqual([]);
    expect(digest?.split('\n')).toEqual([
      expect.stringMatching(/^\*Approvals needed:\* `\d+ requests wait`$/),
      expect.stringMatching(/^First to expire: `\d{4}-\d\d-\d\d \d\d:\d\d UTC`$/),
      expect.stringMatching(/^<[^|]+\/console\/approvals\|Answer in the console>$/),
    ]);
  });

  it('is told in few messages where it comes one by one, on three replicas', async () => {
    const others = ['b', 'c'].map(replica);
    const { channelBurstMax, channelMessageEveryMs } = channelsLimits;
    await slackAt(one);
    for (let each = 1; each <= channelBurstMax; each++) {
      await open();
      await arrived(one, each);
    }
    for (let second = 0; second < 2; second++) {
      for (let each = 0; each < 3; each++) await open();
      await looked();
      expect(one.received).toHaveLength(channelBurstMax + second);
      api.advance(channelMessageEveryMs - 1);
      await looked();
      expect(one.received).toHaveLength(channelBurstMax + second);
      api.advance(1);
      await arrived(one, channelBurstMax + second + 1);
      expect(texts(one).at(-1)).toContain('And: `2 more that wait: see Approvals in the console`');
    }
    expect(told(one)).toBe(channelBurstMax + 6);
    // After a pause they are told one by one again.
    api.advance(channelBurstMax * channelMessageEveryMs);
    for (let each = 1; each <= channelBurstMax; each++) {
      await open();
      await arrived(one, channelBurstMax + 2 + each);
    }
    expect(told(one)).toBe(2 * channelBurstMax + 6);
    for (const other of others) await other.stop();
  });

  it('that ends is told by how it ended, in one message', async () => {
    await slackAt(one);
    const asked = [];
    for (let each = 0; each < 4; each++) asked.push(await open());
    for (let each = 0; each < 12; each++) asked.push(await open({ expiresInMs: 5 * minuteMs }));
    mayHaveOneMore();
    await until(() => told(one) === 16, { what: 'all told' });
    for (const [place, { approvalId }] of asked.slice(0, 10).entries())
      await answer(approvalId, place < 7 ? 'approve' : 'deny');
    await running.stop();
    api.advance(5 * minuteMs - channelsLimits.channelMessageEveryMs);
    await expireAll();
    const before = one.received.length;
    running = replica();
    await until(() => told(one) === 32, { what: 'all ends told' });
    const digest = texts(one)
      .slice(before)
      .find((text) => text.includes('requests ended'));
    expect(digest).toContain('*Approvals ended:* `');
    const ended = (word: string) =>
      texts(one)
        .slice(before)
        .reduce(
          (sum, text) =>
            sum +
            Number(new RegExp(`^${word}: \`(\\d+)\``, 'm').exec(text)?.[1] ?? 0) +
            Number(text.startsWith(`*${word}:`)),
          0,
        );
    expect([ended('Approved'), ended('Denied'), ended('Expired without an answer')]).toEqual([7, 3, 6]);
  });

  it('leaves room again at once when the clock goes back', async () => {
    const channel = await slackAt(one);
    await open();
    await arrived(one, 1);
    await api.deps.sql`
      UPDATE channels SET pace_at_ms = ${api.deps.clock.now() + dayMs} WHERE channel_id = ${channel.id}`;
    await open();
    await arrived(one, 2);
  });

  it('comes again as a whole where its message fails, and leaves out what has ended meanwhile', async () => {
    await running.stop();
    one.answer((response) => response.writeHead(500).end());
    const channel = await slackAt(one);
    await flood(20);
    const ended = await open();
    running = replica();
    await until(async () => (await channel.get()).failures >= 1, { what: 'a failure' });
    expect(await statuses(channel.id)).toEqual({ pending: 21 });
    await answer(ended.approvalId, 'deny');
    one.answer((response) => response.writeHead(200).end('ok'));
    const before = one.received.length;
    api.advance(hourMs / 2);
    await until(async () => (await statuses(channel.id))['sent'] === 20, { what: 'the rest sent' });
    expect(one.received.length - before).toBeLessThan(20);
  });

  it('loses the one message that is refused for good, and none that it speaks for', async () => {
    await running.stop();
    const channel = await slackAt(one);
    await flood(12);
    const { sql, clock } = api.deps;
    const slots = new Map([[channel.id, 1]]);
    const locked = await lockMessages(sql, { slots, replicaId: 'other', nowMs: clock.now() });
    expect(locked.map(({ bundled }) => bundled.length)).toEqual([11]);
    // As by a mail server that takes the requester's words for spam.
    const attempts = locked.map((delivery) => ({ delivery, answer: noAnswer, nextAttemptAtMs: null }));
    await settle(sql, messageQueues, 'other', attempts);
    expect(await statuses(channel.id)).toEqual({ failed: 1, pending: 11 });
    running = replica();
    await until(async () => (await statuses(channel.id))['sent'] === 11, { what: 'the others sent' });
    expect(told(one)).toBe(11);
  });

  it('is told in our words alone, whatever its last requester wrote', async () => {
    await running.stop();
    await slackAt(one);
    await flood(12, {
      display: { title: 'cheap pills', lines: [{ label: 'pills', value: 'cheap' }], url: null },
    });
    running = replica();
    await until(() => told(one) === 12, { what: 'all told' });
    const digest = texts(one).find((text) => text.includes('requests wait'));
    expect(digest).not.toContain('pills');
  });
});

describe('any number of replicas', () => {
  it('take over what a replica had in hand when it died, after its lock', async () => {
    await running.stop();
    const hook = await addChannel(api, { kind: 'webhook', target: one.url }, key);
    await open();
    const { sql, clock } = api.deps;
    const slots = new Map([[hook.id, 4]]);
    const [taken] = await lockMessages(sql, { slots, replicaId: 'dead', nowMs: clock.now() });
    expect(taken?.endpointId).toBe(hook.id);
    running = replica();
    await looked();
    expect(one.received).toHaveLength(0);
    api.advance(channelsLimits.channelLockMs);
    await arrived(one, 1);
  });

  it('tell an end only behind its beginning, also where that is in flight at another replica', async () => {
    await running.stop();
    const channel = await slackAt(one);
    const { approvalId } = await open();
    const { sql, clock } = api.deps;
    const slots = new Map([[channel.id, 4]]);
    await lockMessages(sql, { slots, replicaId: 'slow', nowMs: clock.now() });
    await answer(approvalId, 'deny');
    stand();
    running = replica();
    await looked();
    expect(one.received).toHaveLength(0);
    // The slow one has sent it, and says so.
    await sql`
      UPDATE channel_messages SET status = 'sent', next_attempt_at_ms = NULL, claimed_by = NULL
      WHERE approval_id = ${approvalId} AND event = 'approval.requested'`;
    api.advance(channelsLimits.channelOrderMs);
    await arrived(one, 1);
    expect(texts(one)[0]).toMatch(/^\*Denied:/);
  });
});

it('removes messages of approvals that are long over, and of deleted channels', async () => {
  const channel = await slackAt(one, { after_s: 600 });
  const { approvalId } = await open();
  await api.call({ method: 'DELETE', url: channel.url, key });
  await until(async () => (await messages(approvalId, channel.id)).length === 0, { what: 'no message' });
  const kept = await slackAt(one);
  const old = await open();
  await settled(old.approvalId, kept.id, 1);
  api.advance(outboxLimits.keptMs + dayMs);
  await running.stop();
  running = replica();
  await until(async () => (await messages(old.approvalId, kept.id)).length === 0, { what: 'no old message' });
});
