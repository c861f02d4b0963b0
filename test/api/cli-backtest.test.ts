import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startBacktests } from '../../control-plane/backtests/keep-backtests.ts';
import type { Repetition } from '../../shared/runtime/repeat.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { until } from '../support/base/until.ts';
import { expectRefused, type RunOptions, runCommand, sure } from '../support/programs/command.ts';
import { startOwnApi } from '../support/service/api.ts';
import { useApi } from '../support/service/use-api.ts';

/** Policies that are tried on the past, from the command line. */
const api = useApi(startOwnApi);
const folder = temporaryFolder();
let loop: Repetition;
let env: Readonly<Record<string, string>>;
let key: string;
let gateId: string;

beforeAll(async () => {
  const url = await api.app.listen({ host: '127.0.0.1', port: 0 });
  ({ key } = await api.createAccount());
  env = { AGENT_TRUST_URL: url, AGENT_TRUST_API_KEY: key };
  loop = startBacktests(api.deps);
  const constraints = { spend_limits: { per_transaction_usd: 100 } };
  ({ gate_id: gateId } = await api.createGate({ name: 'Orders', trust_level: 'L1', constraints }, key));
  const { jwt: passport } = await api.issuePassport({ agent_id: 'buyer' }, key);
  for (const amount of [5, 60, 70]) {
    const body = { passport, request: { permission_key: 'orders:create', amount } };
    const { body: answer } = await api.call({ url: `/v1/gates/${gateId}/check`, body, key });
    expect(answer.decision).toBe('PERMIT');
  }
});
afterAll(async () => {
  await loop.stop();
  folder.remove();
});

const run = (args: readonly string[], options: Partial<RunOptions> = {}) =>
  runCommand(args, { env, ...options });
const lower = JSON.stringify({ spend_limits: { per_transaction_usd: 50 } });

it('says what another policy would have decided, in words and in JSON', async () => {
  const command = ['gates', 'backtest', gateId, '--constraints', lower];
  const { stdout } = sure(await run(command));
  expect(stdout).toMatch(/^3 decisions from \S+ to \S+: 1 the same$/m);
  expect(stdout).toMatch(/^ {2}2 PERMIT -> BLOCK \(spend_limit_exceeded\), 130 USD$/m);
  expect(stdout).toContain('most by agent:\n  buyer: 2, 130 USD\n');
  expect(stdout).toMatch(/^newest: att_\w+ att_\w+$/m);
  const report = JSON.parse(sure(await run([...command, '--since', '2h', '--json'])).stdout);
  expect(report).toMatchObject({ status: 'done', report: { decisions: 3, same: 1 } });
  expect(Date.parse(report.until) - Date.parse(report.since)).toBeGreaterThan(7_000_000);
});

it('refuses what is no time and no JSON, and says what the service refuses', async () => {
  const command = ['gates', 'backtest', gateId];
  expectRefused(await run([...command, '--since', 'yesterday']), /30d/);
  expectRefused(await run([...command, '--constraints', '{']), /no JSON/);
  const unknown = await run([...command, '--constraints', '{"spend_limit":{}}']);
  expect(unknown).toMatchObject({ code: 1 });
  expect(unknown.stderr).toContain('spend_limit');
});

it('cancels the backtest of a command that is interrupted', async () => {
  await loop.stop();
  try {
    const stop = new AbortController();
    const running = run(['gates', 'backtest', gateId], { signal: stop.signal });
    await until(async () => (await latest())?.status === 'running', { what: 'the backtest has begun' });
    stop.abort();
    expect((await running).stderr).toContain('cancelled');
    expect((await latest())?.status).toBe('cancelled');
  } finally {
    loop = startBacktests(api.deps);
  }
});

const latest = async () => {
  const [row] = await api.deps.sql<{ status: string }[]>`
    SELECT status FROM backtests WHERE gate_id = ${gateId} ORDER BY backtest_id DESC LIMIT 1`;
  return row;
};

const file = (content: string): string => {
  const path = join(folder.path, 'trust.yaml');
  writeFileSync(path, content);
  return path;
};
const changed = `
version: 1
gates:
  - { name: Orders, trust_level: L1, constraints: { spend_limits: { per_transaction_usd: 50 } } }
  - { name: New, trust_level: L2 }
`;

it('shows with a plan what each changed policy would have decided', async () => {
  const planned = await run(['apply', '-f', file(changed), '--plan', '--backtest', '30d']);
  expect(planned.code, planned.stderr).toBe(3);
  expect(planned.stdout).toMatch(/^gate "Orders" gate_\w+: 3 decisions from/m);
  expect(planned.stdout).toContain('2 PERMIT -> BLOCK (spend_limit_exceeded), 130 USD');
  expect(planned.stdout).not.toContain('gate "New" gate_');
});

it('puts changed policies in shadow, and changes nothing else', async () => {
  const done = await run(['apply', '-f', file(changed), '--shadow', '--yes']);
  expect(done.code, done.stderr).toBe(0);
  expect(done.stderr).toContain('1 other steps of the plan are left out.');
  expect(done.stderr).toMatch(/^shadow of gate "Orders" gate_\w+ until /m);
  const shadow = await api.call({ url: `/v1/gates/${gateId}/shadow`, key });
  expect(shadow.body.constraints).toEqual({ spend_limits: { per_transaction_usd: 50 } });
  const gate = await api.call({ url: `/v1/gates/${gateId}`, key });
  expect(gate.body.constraints.spend_limits.per_transaction_usd).toBe(100);
  expect((await api.call({ url: '/v1/gates', key })).body.total).toBe(1);
});
