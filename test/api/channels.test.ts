import { describe, expect, it } from 'vitest';
import { channelsLimits } from '../../control-plane/channels/limits.ts';
import { smtpMailer } from '../../control-plane/channels/mailer.ts';
import { keptLog } from '../support/base/kept-log.ts';
import { until } from '../support/base/until.ts';
import { startReceiver } from '../support/peers/receiver.ts';
import { startApi, startOwnApi } from '../support/service/api.ts';
import { addChannel } from '../support/service/channels.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

const log = keptLog();
const token = 'XXXXSECRETXXXXTOKENXXXq7d';
const slackUrl = `https://hooks.slack.com/services/T00000000/B00000000/${token}`;
const slack = { name: 'payments', kind: 'slack', target: slackUrl };

const api = useApi(() =>
  startOwnApi({
    logger: log,
    mailer: smtpMailer({
      server: { host: '127.0.0.1', port: 9, user: null, password: null, tls: 'none' },
      from: 'approvals@example.com',
    }),
  }),
);

const post = (body: object, key?: string) =>
  api.call({ url: '/v1/channels', body, ...(key === undefined ? {} : { key }) });

describe('a channel', () => {
  it('is shown without its target, which is a secret, wherever it is shown', async () => {
    const { key } = await api.createAccount();
    const made = await post(slack, key);
    expect(made.status).toBe(201);
    const { channel_id, target_hash } = made.body;
    expect(made.body).toMatchObject({
      ...{ name: 'payments', kind: 'slack', gate_id: null, target: 'https://hooks.slack.com/…Xq7d' },
      ...{ after_s: 0, events: ['approval.requested', 'approval.resolved'], status: 'enabled' },
      ...{ failures: 0, last_error: null, last_sent_at: null },
    });
    expect(made.body.secret).toBeUndefined();
    const url = `/v1/channels/${channel_id}`;
    const get = await api.call({ url, key });
    expect(get.body).toEqual(made.body);
    const list = await api.call({ url: '/v1/channels', key });
    expect(list.body).toMatchObject({ total: 1, items: [made.body] });
    const moved = { target: `${slackUrl}-2` };
    const changed = await api.call({ method: 'PATCH', url, key, body: moved });
    expect(changed.body.target_hash).not.toBe(target_hash);
    await api.call({ method: 'POST', url: `${url}/test`, key });
    await api.call({ method: 'DELETE', url, key });
    const audit = await api.call({ url: '/v1/audit', key });
    expect(JSON.stringify(audit.body)).toContain('createChannel');
    const rows = await api.deps.sql`SELECT * FROM channels`;
    const all = [made, get, list, changed, audit].map(({ body }) => JSON.stringify(body));
    for (const text of [...all, JSON.stringify(rows), log.text()])
      expect(text).not.toContain(token.slice(0, 12));
    expect((await api.call({ url, key })).status).toBe(404);
  });

  it('is refused for a target that would never be called, without quoting it', async () => {
    for (const [kind, target] of [
      ['slack', `http://hooks.slack.com/services/${token}`],
      ['slack', `https://user:pw@hooks.slack.com/${token}`],
      ['webhook', `https://127.0.0.1/${token}`],
      ['webhook', `https://[::1]/${token}`],
      ['webhook', `https://localhost/${token}`],
      ['webhook', token],
      ['email', token],
      ['email', `${token}@example.com, other@example.com`],
      ['email', `Name <${token}@example.com>`],
      ['email', `${token}@example.com\r\nBcc: evil@example.com`],
      ['slack', `${slackUrl}\n`],
      ['webhook', ` ${slackUrl}`],
      // As GET shows one: whoever sends it has no secret to send.
      ['slack', 'https://hooks.slack.com/…Xq7d'],
      ['webhook', 'https://hooks.example.com/…'],
    ]) {
      const refused = await post({ name: 'a', kind, target });
      expectError(refused, 'invalid_request', 'target');
      expect(JSON.stringify(refused.body), target).not.toContain(token);
    }
  });

  it('of the kind email is refused without a mail server, with the settings to set', async () => {
    const without = await startApi();
    const refused = await without.call({
      url: '/v1/channels',
      body: { name: 'a', kind: 'email', target: 'a@example.com' },
    });
    expectError(refused, 'invalid_request', 'kind');
    expect(refused.body.error.message).toMatch(/SMTP_URL and SMTP_FROM/);
    await without.close();
  });

  it('keeps an e-mail address out of the audit, and shows it to who manages channels', async () => {
    const { key } = await api.createAccount();
    const made = await post({ name: 'on call', kind: 'email', target: 'Jane.Doe@Example.com' }, key);
    expect(made.body.target).toBe('jane.doe@example.com');
    const audit = JSON.stringify((await api.call({ url: '/v1/audit', key })).body);
    expect(audit).toContain('…@example.com');
    expect(audit).not.toContain('jane');
  });

  it('changes by a merge patch under its entity tag, and takes back what GET answers', async () => {
    const { key } = await api.createAccount();
    const channel = await addChannel(api, slack, key);
    const read = await api.call({ url: channel.url, key });
    const tag = String(read.headers['etag']);
    const patch = (body: object, headers = {}) =>
      api.call({ method: 'PATCH', url: channel.url, key, body, headers });
    const same = await patch(read.body, { 'if-match': tag });
    expect([same.status, same.headers['etag']]).toEqual([200, tag]);
    const changed = await patch({ ...read.body, name: 'refunds', after_s: 60 }, { 'if-match': tag });
    expect(changed.body).toMatchObject({ name: 'refunds', after_s: 60, target_hash: read.body.target_hash });
    expectError(await patch({ name: 'late' }, { 'if-match': tag }), 'precondition_failed');
    for (const [name, value] of [
      ['channel_id', 'chan_other'],
      ['kind', 'email'],
      ['gate_id', 'gate_other'],
      ['created_at', '2026-01-01T00:00:00.000Z'],
    ] as const)
      expectError(await patch({ [name]: value }), 'invalid_request', name);
    expectError(await patch({ events: ['approval.resolved'] }), 'invalid_request', 'events');
    const refused = await api.call({ method: 'DELETE', url: channel.url, key, headers: { 'if-match': tag } });
    expectError(refused, 'precondition_failed');
  });

  it('has a name of its own in its account and mode, also where two take one at the same moment', async () => {
    const { key } = await api.createAccount();
    const gate = await api.createGate({}, key);
    const replies = await Promise.all([1, 2, 3, 4].map(() => post(slack, key)));
    expect(replies.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409]);
    expectError(await post({ ...slack, gate_id: gate.gate_id }, key), 'channel_name_conflict', 'name');
    const renamed = await Promise.all(
      ['b', 'c'].map(async (name) => {
        const { url } = await addChannel(api, { ...slack, name }, key);
        return () => api.call({ method: 'PATCH', url, key, body: { name: 'one' } });
      }),
    );
    const changed = await Promise.all(renamed.map((rename) => rename()));
    expect(changed.map(({ status }) => status).sort()).toEqual([200, 409]);
    expect((await post(slack, (await api.createAccount()).key)).status).toBe(201);
  });

  it('belongs to a gate of its account, at most so many to each', async () => {
    const { key } = await api.createAccount();
    const other = await api.createAccount();
    const gate = await api.createGate({}, key);
    const foreign = await api.createGate({}, other.key);
    for (const gate_id of [foreign.gate_id, 'gate_x', 'pass_00000000000000000000000000'])
      expectError(await post({ ...slack, gate_id }, key), 'gate_not_found');
    const asked = { ...slack, gate_id: gate.gate_id };
    for (let count = 0; count < channelsLimits.channelsPerPlaceMax; count++)
      expect((await post({ ...asked, name: `${count}` }, key)).status).toBe(201);
    const refused = await post(asked, key);
    expectError(refused, 'invalid_request');
    expect(refused.body.error.message).toMatch(/A gate has at most 8 channels/);
    expect((await post(slack, key)).status).toBe(201);
  });

  it('of another account, or of the other mode, is not there', async () => {
    const channel = await addChannel(api, slack);
    const other = await api.createAccount();
    const test = await api.createKey({ scopes: ['webhooks:manage'], mode: 'test' });
    for (const { key } of [other, test]) {
      for (const [method, path, body] of [
        ['GET', '', undefined],
        ['PATCH', '', { name: 'mine' }],
        ['DELETE', '', undefined],
        ['POST', '/test', undefined],
      ] as const) {
        const call = { method, url: `${channel.url}${path}`, key, ...(body === undefined ? {} : { body }) };
        expectError(await api.call(call), 'channel_not_found');
      }
      expect((await api.call({ url: '/v1/channels', key })).body.items).toEqual([]);
    }
  });
});

describe('a test of a channel', () => {
  it('says what came of it, and leaves the health of the channel as it is', async () => {
    const open = await startApi();
    const receiver = await startReceiver();
    const channel = await addChannel(open, { kind: 'slack', target: receiver.url });
    const test = () => open.call({ method: 'POST', url: `${channel.url}/test` });
    const before = await channel.get();
    expect((await test()).body).toMatchObject({ channel_id: channel.id, sent: true, error: null });
    const { text } = JSON.parse(receiver.received[0]?.body ?? '');
    expect(text).toContain('A test of this channel: nothing waits for an answer');
    receiver.answer((response) => response.writeHead(403).end('invalid_token xoxb-12345678901234567890'));
    const failed = (await test()).body;
    expect(failed).toMatchObject({ sent: false, error: { code: 'bad_answer' } });
    expect(failed.error.detail).toMatch(/^HTTP 403 invalid_token/);
    expect(failed.error.detail).not.toContain('xoxb-123');
    await receiver.close();
    expect((await test()).body).toMatchObject({ sent: false, error: { code: 'unreachable' } });
    expect(await channel.get()).toEqual(before);
    await open.close();
  });

  it('is refused while many are under way, so that none holds requests', async () => {
    const open = await startApi();
    const receiver = await startReceiver();
    let release: () => void = () => undefined;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    receiver.answer((response) => void held.then(() => response.writeHead(200).end()));
    const channel = await addChannel(open, { kind: 'slack', target: receiver.url });
    const test = () => open.call({ method: 'POST', url: `${channel.url}/test` });
    const { channelTestsAtOnceMax: most } = channelsLimits;
    const statuses: number[] = [];
    const running = Array.from({ length: most + 2 }, async () => statuses.push((await test()).status));
    // Only while all of them are under way the others find no room.
    await until(() => statuses.length === 2 && receiver.received.length === most, { what: 'two refusals' });
    release();
    await Promise.all(running);
    expect(statuses).toEqual([503, 503, ...Array.from({ length: most }, () => 200)]);
    expect((await test()).body.sent).toBe(true);
    await receiver.close();
    await open.close();
  });
});
