import { describe, expect, it } from 'vitest';
import {
  claimBacktest,
  endBacktest,
  failLostBacktests,
  noteProgress,
  trimBacktests,
} from '../../control-plane/backtests/backtest-store.ts';
import { startBacktests } from '../../control-plane/backtests/keep-backtests.ts';
import { dayMs, renderTime, type UnixMillis } from '../../shared/model/time.ts';
import { untilAnswer } from '../support/base/until.ts';
import { startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
interface Asked {
  readonly gateId: string;
  readonly token: string;
  readonly request?: object;
}

async function check({ gateId, token, request = {} }: Asked) {
  const body = { passport: token, request: { permission_key: 'orders:create', amount: 10, ...request } };
  const reply = await api.call({ url: `/v1/gates/${gateId}/check`, body });
  expect(reply.status, JSON.stringify(reply.body)).toBe(200);
  return reply.body;
}

const start = (gateId: string, body: object, key?: string) =>
  api.call({ url: `/v1/gates/${gateId}/backtest`, body, ...(key === undefined ? {} : { key }) });

const get = (id: string) => api.call({ url: `/v1/backtests/${id}` });

async function reportOf(gateId: string, body: object) {
  const begun = await start(gateId, body);
  expect(begun.status, JSON.stringify(begun.body)).toBe(202);
  expect(begun.body).toMatchObject({ status: 'running', progress: 0, report: null, gate_id: gateId });
  const ended = await done(begun.body.backtest_id);
  expect(ended).toMatchObject({ status: 'done', progress: 1, reason: null });
  return ended.report;
}

/** With a loop as main.ts has it. */
async function done(id: string) {
  const loop = startBacktests(api.deps);
  try {
    const what = 'the backtest ends';
    const { body } = await untilAnswer(
      () => get(id),
      (reply) => reply.body.status !== 'running',
      { what },
    );
    return body;
  } finally {
    await loop.stop();
  }
}

const constraints = {
  allowed_domains: ['example.com', '*.example.org'],
  spend_limits: { per_transaction_usd: 100, daily_usd: 1000 },
};

describe('a backtest', () => {
  it('of the live policy says that everything is the same', async () => {
    const { gate_id: gateId } = await api.createGate({ constraints });
    const { jwt: token } = await api.issuePassport();
    for (const request of [
      { domain: 'example.com' },
      { domain: 'api.example.org', amount: 99 },
      { domain: 'evil.example' },
      { domain: 'example.com', amount: 101 },
      { domain: 'example.com', permission_key: 'orders:burn' },
      { domain: 'example.com', amount: 100, currency: 'EUR' },
      { amount: 1 },
    ])
      await check({ gateId, token, request });
    expect(await reportOf(gateId, {})).toMatchObject({
      decisions: 7,
      same: 7,
      different: [],
      undecided: [],
      examples: [],
    });
  });

  it('finds what another policy decides otherwise, with its money, and by whom', async () => {
    const { gate_id: gateId } = await api.createGate({ constraints });
    const { jwt: token, agent_id: agentId } = await api.issuePassport();
    await check({ gateId, token, request: { domain: 'example.com', amount: 10 } });
    const large = await check({ gateId, token, request: { domain: 'example.com', amount: 60 } });
    const other = await check({ gateId, token, request: { domain: 'a.example.net', amount: 5 } });
    const report = await reportOf(gateId, {
      constraints: {
        allowed_domains: ['example.com', '*.example.net'],
        spend_limits: { per_transaction_usd: 50 },
      },
    });
    expect(report).toMatchObject({
      decisions: 3,
      same: 1,
      undecided: [],
      by_agent: { named: [{ agent_id: agentId, count: 2, amount_usd: 65 }] },
      by_permission: { named: [{ permission_key: 'orders:create', count: 2, amount_usd: 65 }] },
      examples: [other.attestation_id, large.attestation_id],
    });
    const kinds = [
      {
        from: 'PERMIT',
        to: 'BLOCK',
        reason: 'spend_limit_exceeded',
        condition: null,
        count: 1,
        amount_usd: 60,
      },
      { from: 'BLOCK', to: 'PERMIT', reason: 'domain_not_allowed', condition: null, count: 1, amount_usd: 5 },
    ];
    expect(report.different).toEqual(expect.arrayContaining(kinds));
    expect(report.different).toHaveLength(2);
  });

  it('adds up windows by what the other policy permits', async () => {
    const { gate_id: gateId } = await api.createGate({ constraints });
    const { jwt: token } = await api.issuePassport();
    for (const amount of [60, 30, 30, 10])
      await check({ gateId, token, request: { domain: 'example.com', amount } });
    // 60 is too much for one day of 50; 30 fits, another 30 does not, 10 does.
    const { different } = await reportOf(gateId, { constraints: { spend_limits: { daily_usd: 50 } } });
    expect(different).toEqual([
      {
        from: 'PERMIT',
        to: 'BLOCK',
        reason: 'spend_limit_exceeded',
        condition: null,
        count: 2,
        amount_usd: 90,
      },
    ]);
  });

  it('counts an approval that ended as the SUSPEND that it was', async () => {
    const { gate_id: gateId } = await api.createGate({ constraints: { approvals: { above_usd: 5 } } });
    const { jwt: token } = await api.issuePassport();
    const { approval_id: approvalId } = await check({ gateId, token });
    await api.call({ method: 'POST', url: `/v1/approvals/${approvalId}/deny` });
    const report = await reportOf(gateId, { constraints: { approvals: null } });
    expect(report).toMatchObject({
      decisions: 1,
      different: [{ from: 'SUSPEND', to: 'PERMIT', reason: 'approval_required', count: 1 }],
    });
    expect(await reportOf(gateId, {})).toMatchObject({ decisions: 1, same: 1 });
  });

  it('guesses nothing that no record says', async () => {
    const { gate_id: gateId } = await api.createGate({ constraints });
    const { jwt: token } = await api.issuePassport();
    await check({ gateId, token, request: { domain: 'example.com' } });
    await check({ gateId, token, request: { domain: 'evil.example' } });
    const scanned = await reportOf(gateId, { constraints: { pii_controls: { mode: 'block' } } });
    expect(scanned).toMatchObject({
      decisions: 2,
      same: 1,
      undecided: [{ cause: 'personal_data', count: 1 }],
    });
    const proven = await reportOf(gateId, { constraints: { proof_of_possession: 'required' } });
    expect(proven).toMatchObject({ same: 1, undecided: [{ cause: 'proof', count: 1 }] });
  });

  it('reads the records of its time alone, and leaves tests of the gate out', async () => {
    const { gate_id: gateId } = await api.createGate({ constraints });
    const { jwt: token } = await api.issuePassport();
    await check({ gateId, token, request: { domain: 'example.com' } });
    const now = api.deps.clock.now();
    const test = { passport_token: token, context: { permission_key: 'orders:create', amount: 1 } };
    expect((await api.call({ url: `/v1/gates/${gateId}/test`, body: test })).status).toBe(200);
    const times = { since: renderTime((now - dayMs) as UnixMillis), until: renderTime(now) };
    expect(await reportOf(gateId, times)).toMatchObject({ from: times.since, until: times.until });
    const before = { since: renderTime((now - 2 * dayMs) as UnixMillis), until: times.since };
    expect(await reportOf(gateId, before)).toMatchObject({ decisions: 0 });
    expect((await reportOf(gateId, {})).decisions).toBe(1);
  });
});

describe('of an account', () => {
  it('one runs at a time, and another one can begin once it is cancelled', async () => {
    const { key } = await api.createAccount();
    const { gate_id: gateId } = await api.createGate({}, key);
    const begun = await start(gateId, {}, key);
    expect(begun.status).toBe(202);
    expectError(await start(gateId, {}, key), 'backtest_running');
    const url = `/v1/backtests/${begun.body.backtest_id}`;
    const cancelled = await api.call({ method: 'DELETE', url, key });
    expect(cancelled.body).toMatchObject({ status: 'cancelled', report: null });
    expect((await api.call({ method: 'DELETE', url, key })).body).toEqual(cancelled.body);
    expect((await start(gateId, {}, key)).status).toBe(202);
  });

  it('of two that begin at once one runs', async () => {
    const { key } = await api.createAccount();
    const { gate_id: gateId } = await api.createGate({}, key);
    const begun = await Promise.all(Array.from({ length: 4 }, () => start(gateId, {}, key)));
    expect(begun.map(({ status }) => status).sort()).toEqual([202, 409, 409, 409]);
  });

  it('is seen by no other, and needs the scopes of gates and of records', async () => {
    const { gate_id: gateId } = await api.createGate();
    const { body: begun } = await start(gateId, {});
    const { key } = await api.createAccount();
    for (const method of ['GET', 'DELETE'])
      expectError(
        await api.call({ method, url: `/v1/backtests/${begun.backtest_id}`, key }),
        'backtest_not_found',
      );
    expectError(await start(gateId, {}, key), 'gate_not_found');
    for (const scope of ['gates:read', 'attestations:read']) {
      const { key: narrow } = await api.createKey({ scopes: [scope] });
      expectError(await start(gateId, {}, narrow), 'insufficient_scope');
      for (const method of ['GET', 'DELETE'])
        expectError(
          await api.call({ method, url: `/v1/backtests/${begun.backtest_id}`, key: narrow }),
          'insufficient_scope',
        );
    }
    await done(begun.backtest_id);
  });

  it('refuses times that are none, and policies that no gate may have', async () => {
    const { gate_id: gateId } = await api.createGate();
    const later = renderTime((api.deps.clock.now() + dayMs) as UnixMillis);
    for (const [body, param] of [
      [{ until: later }, 'until'],
      [{ since: later }, 'since'],
      [{ since: 'yesterday' }, 'since'],
      [{ constraints: { allowed_domain: [] } }, 'constraints.allowed_domain'],
      [{ trust_level: null }, 'trust_level'],
    ] as const)
      expectError(await start(gateId, body), 'invalid_request', param);
  });
});

describe('a running one', () => {
  it('of a replica that is gone has failed once its time is over, and not before', async () => {
    const { sql } = api.deps;
    const { gate_id: gateId } = await api.createGate();
    const { backtest_id: id } = (await start(gateId, {})).body;
    expect((await claimBacktest(sql, 'gone'))?.backtestId).toBe(id);
    expect(await claimBacktest(sql, 'another')).toBeNull();
    expect(await failLostBacktests(sql)).toBe(0);
    expect((await get(id)).body.status).toBe('running');
    await sql`UPDATE backtests SET worker_until_ms = worker_until_ms - 60001 WHERE backtest_id = ${id}`;
    expect(await done(id)).toMatchObject({ status: 'failed', reason: 'control_plane_lost', report: null });
    // Whoever wakes again finds that it is over.
    expect(await noteProgress(sql, { backtestId: id, replicaId: 'gone', progress: 0.5 })).toBe(false);
    await endBacktest(sql, { backtestId: id, replicaId: 'gone' }, { report: {} });
    expect((await get(id)).body.status).toBe('failed');
    expect((await reportOf(gateId, {})).decisions).toBe(0);
  });

  it('ends with its control plane, at the next page', async () => {
    const { gate_id: gateId } = await api.createGate({ constraints });
    const { jwt: token } = await api.issuePassport();
    await check({ gateId, token, request: { domain: 'example.com' } });
    const { backtest_id: id } = (await start(gateId, {})).body;
    const held = await holdRecords();
    const loop = startBacktests(api.deps);
    await held.untilAwaited();
    const stopped = loop.stop();
    await held.release();
    await stopped;
    expect((await get(id)).body).toMatchObject({ status: 'failed', reason: 'control_plane_stopped' });
  });

  it('stops where it was cancelled', async () => {
    const { gate_id: gateId } = await api.createGate({ constraints });
    const { jwt: token } = await api.issuePassport();
    await check({ gateId, token, request: { domain: 'example.com' } });
    const { backtest_id: id } = (await start(gateId, {})).body;
    const held = await holdRecords();
    const loop = startBacktests(api.deps);
    await held.untilAwaited();
    await api.call({ method: 'DELETE', url: `/v1/backtests/${id}` });
    await held.release();
    expect((await reportOf(gateId, {})).decisions).toBe(1);
    await loop.stop();
    expect((await get(id)).body).toMatchObject({ status: 'cancelled', report: null });
  });
});

it('is kept for seven days, and so are the newest hundred of an account at most', async () => {
  const { sql, clock } = api.deps;
  const { gate_id: gateId } = await api.createGate();
  const { backtest_id: id } = (await start(gateId, {})).body;
  await done(id);
  await sql`
    INSERT INTO backtests (backtest_id, account_id, mode, gate_id, policy_hash, policy, since_ms, until_ms, status,
      created_at_ms, ended_at_ms)
    SELECT 'bt_' || lpad(n::text, 26, '0'), account_id, mode, gate_id, '', '{}', 0, 1, 'cancelled', b.created_at_ms, 1
    FROM backtests b, generate_series(1, 150) n WHERE backtest_id = ${id}`;
  const week = 7 * dayMs;
  await trimBacktests(sql, (clock.now() + week - 60_000) as UnixMillis);
  expect((await get(id)).status).toBe(200);
  const { backtest_id: next } = (await start(gateId, {})).body;
  const [kept] = await sql<
    { count: number }[]
  >`SELECT count(*) AS count FROM backtests WHERE gate_id = ${gateId}`;
  expect(kept?.count).toBeLessThanOrEqual(100);
  expect((await get(id)).status).toBe(200);
  await done(next);
  await trimBacktests(sql, (clock.now() + week + 60_000) as UnixMillis);
  expectError(await get(id), 'backtest_not_found');
});

/** Nobody reads records until they are released. */
async function holdRecords() {
  const blocker = await api.deps.sql.reserve();
  await blocker`BEGIN`;
  await blocker`LOCK TABLE records IN ACCESS EXCLUSIVE MODE`;
  return {
    untilAwaited: async () => {
      const waiting = () =>
        blocker<{ waits: boolean }[]>`
          SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'records'::regclass AND NOT granted) AS waits`;
      await untilAnswer(waiting, ([row]) => row?.waits === true, { what: 'a backtest reads records' });
    },
    release: async () => {
      await blocker`ROLLBACK`;
      blocker.release();
    },
  };
}
