import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { call } from '../support/base/http-client.ts';
import { until } from '../support/base/until.ts';
import { type TestDatabase, testDatabase } from '../support/database/postgres.ts';
import { type Receiver, startReceiver } from '../support/peers/receiver.ts';
import { type Installation, installation, type Running } from '../support/programs/installation.ts';
import { bundledPrograms, type Programs } from '../support/programs/programs.ts';
import { verified, verifiedAll } from '../support/service/webhooks.ts';

/** Webhooks with programs as they run in production. */
let programs: Programs;
let database: TestDatabase;
let world: Installation;
let first: Running;
let second: Running;
let receiver: Receiver;

const env = { WEBHOOK_ALLOW_PRIVATE: '1' };

beforeAll(async () => {
  programs = await bundledPrograms();
  database = await testDatabase();
  world = await installation(programs, { databaseUrl: database.url });
  first = await world.startControlPlane(env);
  second = await world.startControlPlane(env);
  receiver = await startReceiver();
});
afterAll(async () => {
  await receiver?.close();
  await world?.close();
  await database?.drop();
});

const subscribe = async (url: string): Promise<{ readonly path: string; readonly secret: string }> => {
  const { status, body } = await world.api('POST', '/webhooks', { url, events: ['gate.created'] });
  expect(status, JSON.stringify(body)).toBe(201);
  return { path: `/webhooks/${body.webhook_id}`, secret: body.secret };
};

describe('two control planes, one killed in mid-delivery again and again', () => {
  it('deliver every event at least once to a receiver that fails half of the time', async () => {
    let arrivals = 0;
    // Answers are kept back until the kill, so that it finds deliveries under way.
    let isHolding = false;
    const heldBack: (() => void)[] = [];
    receiver.answer((response) => {
      arrivals += 1;
      const status = arrivals % 2 === 0 ? 204 : 500;
      const answer = () => response.writeHead(status).end();
      if (isHolding) heldBack.push(answer);
      else answer();
    });
    const hook = await subscribe(receiver.url);
    const gates: string[] = [];
    /** Deliveries that the second control plane has under way, or had when it was killed. */
    const replica = () => /"replica":"(\w+)"/.exec(second.program.output())?.[1] ?? '';
    const claimed = async (): Promise<number> => {
      const [row] = await database.sql<{ n: number }[]>`
        SELECT count(*)::int AS n FROM webhook_deliveries WHERE claimed_by = ${replica()}`;
      return row?.n ?? 0;
    };
    let abandoned = 0;
    for (let round = 0; round < 3; round++) {
      isHolding = true;
      const created = Array.from({ length: 20 }, () => world.createGate());
      gates.push(...(await Promise.all(created)));
      await until(async () => (await claimed()) > 0, { what: 'a delivery under way' });
      await second.stop('SIGKILL');
      abandoned += await claimed();
      // As if its lease of them had ended.
      await database.sql`UPDATE webhook_deliveries SET next_attempt_at_ms = 0 WHERE claimed_by = ${replica()}`;
      isHolding = false;
      for (const answer of heldBack.splice(0)) answer();
      await second.start();
    }
    const delivered = () => new Set(verifiedAll(receiver, hook.secret).map(({ data }) => data.gate_id));
    const successes = async (): Promise<number> =>
      (await world.api('GET', `${hook.path}/deliveries?status=succeeded&limit=1`)).body.total;
    // What failed comes again after 5 s; half of that fails once more, and its third attempt is five minutes
    // away: `recover` asks for it now.
    const since = '2026-01-01T00:00:00Z';
    await until(
      async () => {
        await world.api('POST', `${hook.path}/recover`, { since });
        return (await successes()) === gates.length;
      },
      { what: 'the success of every delivery', timeoutMs: 150_000 },
    );
    expect(delivered()).toEqual(new Set(gates));
    // Control: there were deliveries under way at the kills, failing did cost attempts, and no event got a
    // second id.
    expect(abandoned).toBeGreaterThan(0);
    expect(receiver.received.length).toBeGreaterThan(gates.length);
    const ids = new Set(receiver.received.map(({ headers }) => headers['webhook-id']));
    expect(ids.size).toBe(gates.length);
    for (const running of [first, second]) expect(running.program.output()).not.toContain(hook.secret);
  }, 240_000);
});

describe('agent-trust webhooks', () => {
  const command = (args: readonly string[], more: Readonly<Record<string, string>> = {}) =>
    programs.start(['webhooks', ...args], { AGENT_TRUST_API_KEY: world.adminKey, ...more });
  const api = () => ['--api', first.origin];

  it('listen forwards what happens, signed with the secret that it shows, and leaves nothing behind', async () => {
    const local = await startReceiver();
    const before = (await world.api('GET', '/webhooks')).body.total;
    const listen = command(['listen', '--forward-to', local.url, '--events', 'gate.created', ...api()]);
    await listen.waitFor(/Ctrl-C/);
    const secret = /signed with (whsec_\S+)/.exec(listen.stdout())?.[1] ?? '';
    const gateId = await world.createGate();
    await until(() => local.received.length > 0, { what: 'the event' });
    expect(verifiedAll(local, secret)).toMatchObject([{ event: 'gate.created', data: { gate_id: gateId } }]);
    await listen.waitFor(/gate\.created +evt_\S+ {2}-> 204/);

    const trigger = command(['trigger', 'gate.created', ...api()]);
    expect(await trigger.exited, trigger.output()).toBe(0);
    await until(() => local.received.length > 1, { what: 'the triggered event' });
    expect(verifiedAll(local, secret)[1]?.data.name).toBe('Sample gate');

    expect(await listen.stop('SIGINT'), listen.output()).toBe(0);
    expect((await world.api('GET', '/webhooks')).body.total).toBe(before);
    await local.close();
  });

  it('trigger --forward-to needs no service', async () => {
    const local = await startReceiver();
    const trigger = programs.start(
      ['webhooks', 'trigger', 'approval.requested', '--forward-to', local.url],
      {},
    );
    expect(await trigger.exited, trigger.output()).toBe(0);
    const secret = /Signed with (whsec_\S+)/.exec(trigger.stdout())?.[1] ?? '';
    expect(local.received.map((each) => verified(each, secret).event)).toEqual(['approval.requested']);
    local.answer((response) => response.writeHead(500).end());
    const refused = programs.start(['webhooks', 'trigger', 'gate.created', '--forward-to', local.url], {});
    expect(await refused.exited).toBe(1);
    expect(refused.output()).toMatch(/gate\.created evt_\S+ -> 500/);
    await local.close();
  });

  it.each([
    [['trigger', 'gate.made'], {}, 2, /"gate\.made" is not an event\. Events: passport\.verified/],
    [['listen', '--forward-to', 'http://localhost:3000', '--api', 'nowhere'], {}, 2, /must be an address/],
    [['listen', '--forward-to', 'localhost:3000'], {}, 2, /--forward-to must be an http address/],
    [
      ['trigger', 'gate.created'],
      { AGENT_TRUST_API_KEY: 'nonsense' },
      2,
      /AGENT_TRUST_API_KEY is not an API key/,
    ],
  ])('%j ends with a clear word', async (args, more, code, words) => {
    const ended = command(args, more);
    expect(await ended.exited, ended.output()).toBe(code);
    expect(ended.output()).toMatch(words);
    expect(ended.output()).not.toContain(world.adminKey);
  });
});

it('a control plane without WEBHOOK_ALLOW_PRIVATE calls nothing on this machine', async () => {
  const key = world.adminKey;
  const strict = await world.startControlPlane();
  const body = { url: receiver.url, events: ['gate.created'] };
  const reply = await call(`${strict.origin}/v1/webhooks`, { method: 'POST', key, body });
  expect([reply.status, reply.body.error?.param]).toEqual([400, 'url']);
  await strict.stop();
});
