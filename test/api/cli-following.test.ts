import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { until } from '../support/base/until.ts';
import { type Link, linkTo } from '../support/peers/link.ts';
import { expectRefused, type RunOptions, runCommand } from '../support/programs/command.ts';
import { startOwnApi } from '../support/service/api.ts';
import { openAnApproval } from '../support/service/approvals.ts';
import { useApi } from '../support/service/use-api.ts';

/** Commands that follow what happens: `attestations tail`, `approvals watch`. */
const api = useApi(startOwnApi);
let link: Link;
let env: Readonly<Record<string, string>>;
let key: string;

beforeAll(async () => {
  await api.app.listen({ host: '127.0.0.1', port: 0 });
  link = await linkTo((api.app.server.address() as AddressInfo).port);
  ({ key } = await api.createAccount());
  env = { AGENT_TRUST_URL: link.origin, AGENT_TRUST_API_KEY: key };
});
afterAll(() => link?.close());

/** A command that runs until it is stopped. */
function follow(line: string, options: Partial<RunOptions> = {}) {
  const stop = new AbortController();
  let text = '';
  const ran = runCommand(line.split(' '), {
    env,
    signal: stop.signal,
    seen: (more) => {
      text += more;
    },
    ...options,
  });
  const lines = () =>
    text
      .split('\n')
      .filter((each) => each.startsWith('{'))
      .map((each) => JSON.parse(each));
  return {
    ran,
    text: () => text,
    lines,
    sees: (what: string, isSeen: () => boolean) => until(isSeen, { what: `${what} in ${text}` }),
    stop: () => {
      stop.abort();
      return ran;
    },
  };
}

/** Decisions at a gate, each of which leaves a record. */
async function decide(gateId: string, passport: string, count: number): Promise<void> {
  for (let n = 0; n < count; n++) {
    const body = { passport, request: { permission_key: 'orders:create' } };
    await api.call({ method: 'POST', url: `/v1/gates/${gateId}/check`, key, body });
  }
}

const party = async () => {
  const gate = await api.createGate({ trust_level: 'L1' }, key);
  const { jwt } = await api.issuePassport({ permissions: ['orders:create'] }, key);
  return { gateId: String(gate.gate_id), jwt: String(jwt) };
};

it('shows each new record once, and goes on where it was when the service comes back', async () => {
  const { gateId, jwt } = await party();
  await decide(gateId, jwt, 2);
  const tail = follow(`attestations tail --gate ${gateId} --json`);
  // It has marked what was there when it shows the first that is new.
  await until(
    async () => {
      await decide(gateId, jwt, 1);
      return tail.lines().length > 0;
    },
    { what: 'a new record' },
  );
  link.cut();
  await decide(gateId, jwt, 2);
  await tail.sees('the loss', () => /Trying again until it answers/.test(tail.text()));
  link.restore();
  await tail.sees('the return', () => /The service answers again/.test(tail.text()));
  const other = await party();
  await decide(other.gateId, other.jwt, 1);
  await decide(gateId, jwt, 1);
  const { body } = await api.call({ url: `/v1/attestations?gate_id=${gateId}&limit=500`, key });
  const ids = body.attestations.map(({ id }: { id: string }) => id).toReversed();
  await tail.sees('the last', () => tail.lines().some(({ id }) => id === ids.at(-1)));
  expect((await tail.stop()).code).toBe(0);
  const shown = tail.lines().map(({ id }) => id);
  expect(shown).toEqual(ids.slice(-shown.length));
  expect(shown.length).toBeLessThanOrEqual(ids.length - 2);
});

it('begins with --since, and shows tables to people', async () => {
  const { gateId, jwt } = await party();
  await decide(gateId, jwt, 3);
  const tail = follow(`attestations tail --gate ${gateId} --since 2020-01-01T00:00:00Z`);
  await tail.sees('three', () => (tail.text().match(/PERMIT/g) ?? []).length === 3);
  const { stdout } = await tail.stop();
  expect(stdout.split('\n')[0]).toMatch(/^TIME +DECISION +REASON/);
});

it('ends at a refusal that waiting does not mend', async () => {
  const reader = await api.createKey({ name: 'reader', scopes: ['gates:read'] }, key);
  for (const line of ['attestations tail', 'approvals watch']) {
    const ran = await follow(line, { env: { ...env, AGENT_TRUST_API_KEY: reader.key } }).ran;
    expectRefused(ran, /^insufficient_scope/, 1);
  }
});

it('shows approvals as they come, each once', async () => {
  const first = await openAnApproval(api, { key });
  const watch = follow('approvals watch --json');
  await watch.sees('the first', () => watch.lines().length === 1);
  const second = await openAnApproval(api, { key });
  await watch.sees('the second', () => watch.lines().length === 2);
  expect((await watch.stop()).code).toBe(0);
  expect(watch.lines().map(({ approval_id }) => approval_id)).toEqual([first.approvalId, second.approvalId]);
  for (const { approvalId } of [first, second])
    expect((await runCommand(['approvals', 'deny', approvalId, '--note', 'no'], { env })).code).toBe(0);
});

it('asks about each at a terminal, and does what is said', async () => {
  const approvals = [];
  const gate = await api.createGate({ name: 'The shop' }, key);
  const lines = [{ label: 'Supplier', value: 'Nord\u202ewind' }];
  const display = { title: 'Order 20 chairs', lines, url: 'https://shop.example/orders/7' };
  approvals.push(await openAnApproval(api, { key, gateId: gate.gate_id, display }));
  for (let n = 0; n < 3; n++) approvals.push(await openAnApproval(api, { key }));
  const watch = follow('approvals watch', { typed: ['a known supplier', 'what?', 'd', 's', 'q'] });
  expect((await watch.ran).code).toBe(0);
  const [first = ''] = watch.text().split('[a]pprove');
  for (const what of [
    `Gate: The shop (${gate.gate_id})`,
    'Order 20 chairs',
    '| Supplier: Nord\\u202ewind',
    '| https://shop.',
  ])
    expect(first).toContain(what);
  const states = [];
  for (const { approvalId } of approvals) {
    const { body } = await api.call({ url: `/v1/approvals/${approvalId}`, key });
    states.push([body.status, body.note]);
  }
  expect(states).toEqual([
    ['approved', 'known supplier'],
    ['denied', null],
    ['pending', null],
    ['pending', null],
  ]);
});
