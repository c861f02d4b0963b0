import { utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { call } from '../support/base/http-client.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { until } from '../support/base/until.ts';
import { testDatabase } from '../support/database/postgres.ts';
import { httpLink, type LinkAnswer } from '../support/peers/http-link.ts';
import { type TestRedis, testRedis } from '../support/peers/redis.ts';
import { runCommand } from '../support/programs/command.ts';
import { type Installation, installation, type Running } from '../support/programs/installation.ts';
import { bundledPrograms } from '../support/programs/programs.ts';

/** `agent-trust doctor` at programs that run, and at what goes wrong with them. */
let database: Awaited<ReturnType<typeof testDatabase>>;
let redis: TestRedis;
let world: Installation;
let plane: Running;
let sidecar: Running;
let folder: ReturnType<typeof temporaryFolder>;
let env: Readonly<Record<string, string>>;

beforeAll(async () => {
  database = await testDatabase();
  redis = await testRedis();
  folder = temporaryFolder();
  world = await installation(await bundledPrograms(), { databaseUrl: database.url, redisUrl: redis.url });
  plane = await world.startControlPlane();
  sidecar = await world.startSidecar();
  const gateId = await world.createGate();
  const { token } = await world.issuePassport();
  const body = { passport: token, request: { permission_key: 'orders:create' } };
  const check = () =>
    call(`${sidecar.origin}/v1/gates/${gateId}/check`, { method: 'POST', key: world.adminKey, body });
  // The sidecar learns of the gate after the control plane.
  await until(async () => (await check()).status === 200, { what: 'a decision' });
  const stored = async () => (await world.api('GET', '/attestations')).body.attestations.length === 1;
  await until(stored, { what: 'the record is stored' });
  env = {
    AGENT_TRUST_URL: plane.origin,
    AGENT_TRUST_API_KEY: world.adminKey,
    DATABASE_URL: database.url,
    MASTER_KEY: Buffer.alloc(32, 7).toString('base64url'),
    REDIS_URL: redis.url,
    SIDECAR_PORT: new URL(sidecar.origin).port,
  };
});
afterAll(async () => {
  await world?.close();
  await redis?.stop();
  await database?.drop();
  folder?.remove();
});

interface Finding {
  readonly check: string;
  readonly state: string;
  readonly message: string;
  readonly next: string | null;
}

async function doctor(more: Readonly<Record<string, string>> = {}, args: readonly string[] = []) {
  const ran = await runCommand(['doctor', '--json', ...args], { env: { ...env, ...more } });
  const findings: readonly Finding[] = ran.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  const secrets = [world.adminKey, env['MASTER_KEY'] ?? ''];
  for (const secret of secrets) expect(ran.stdout).not.toContain(secret);
  return { code: ran.code, findings, of: (check: string) => findings.filter((each) => each.check === check) };
}

it('finds all of it well, in a line for each part', async () => {
  const stamp = join(folder.path, 'stamp');
  writeFileSync(stamp, '');
  const { code, findings } = await doctor({}, ['--backup-stamp', stamp]);
  expect(findings.map(({ check, state }) => `${check} ${state}`)).toEqual([
    'settings ok',
    'service ok',
    'clocks ok',
    'database ok',
    'sidecars ok',
    'push ok',
    'history ok',
    'log ok',
    'key ok',
    'database ok',
    'redis ok',
    'records ok',
    'balance ok',
    'wallets ok',
    'approvers ok',
    'sidecar ok',
    'spool ok',
    'backup ok',
  ]);
  expect(code).toBe(0);
  expect(findings.find(({ check }) => check === 'records')?.message).toMatch(/newest 1, in 1 chain, verify/);
  const shown = await runCommand(['doctor'], { env });
  expect(shown.stdout).toMatch(/^ok {7}service {4}http:.* is ready$/m);
  expect(shown.stdout).toMatch(/^unknown {2}backup .* -> Let your backup touch a file/m);
});

it('says what a backup that is old, or none, means', async () => {
  const stamp = join(folder.path, 'old');
  writeFileSync(stamp, '');
  const dayAgo = Date.now() / 1_000 - 30 * 3_600;
  utimesSync(stamp, dayAgo, dayAgo);
  const old = await doctor({}, ['--backup-stamp', stamp]);
  expect(old.of('backup')).toMatchObject([
    { state: 'fail', message: expect.stringMatching(/30\.0 h ago, over 26 h/) },
  ]);
  expect(old.code).toBe(1);
  expect((await doctor({}, ['--backup-stamp', stamp, '--backup-max-age', '48'])).code).toBe(0);
  expect((await doctor({}, ['--backup-stamp', '/nowhere'])).of('backup')).toMatchObject([{ state: 'fail' }]);
});

it('names each wrong setting, and goes on without them', async () => {
  const { code, of } = await doctor({ AGENT_TRUST_PROT: '1', PORT: 'x' });
  expect(code).toBe(1);
  expect(of('settings').map(({ message }) => message)).toEqual([
    expect.stringMatching(/PORT must be/),
    expect.stringMatching(/AGENT_TRUST_PROT is not a setting/),
  ]);
});

it('tells a key that is not known from a service that is away', async () => {
  const other = { AGENT_TRUST_API_KEY: `at_live_${'x'.repeat(40)}` };
  expect((await doctor(other)).of('key')).toMatchObject([
    { state: 'fail', message: expect.stringMatching(/not know/) },
  ]);
  const away = await doctor({ AGENT_TRUST_URL: 'http://127.0.0.1:1' });
  expect(away.of('service')).toMatchObject([{ state: 'fail', next: expect.stringMatching(/^Start it/) }]);
  expect(away.code).toBe(1);
});

it('verifies what it is answered: a changed record, and a history that went back', async () => {
  const change = (answer: LinkAnswer | null, from: RegExp, to: string) =>
    answer && { ...answer, body: Buffer.from(answer.body.toString().replace(from, to)) };
  const link = await httpLink(
    () => plane.origin,
    async (arrived, deliver) => {
      const answer = await deliver(arrived);
      if (arrived.path.startsWith('/v1/attestations'))
        return change(answer, /"orders:create"/, '"orders:delete"');
      if (arrived.path === '/readyz') return change(answer, /"state":"whole"/, '"state":"regressed"');
      return answer;
    },
  );
  const { code, of } = await doctor({ AGENT_TRUST_URL: link.origin });
  expect(code).toBe(1);
  expect(of('records')).toMatchObject([{ state: 'fail', message: expect.stringMatching(/hash_mismatch/) }]);
  expect(of('history')).toMatchObject([
    { state: 'fail', next: expect.stringMatching(/agent-trust recover/) },
  ]);
  await link.close();
});

describe('with a part that is gone', () => {
  it('says so of Redis, and that sidecars poll', async () => {
    await redis.stop();
    await until(async () => (await call(`${plane.origin}/readyz`)).body.push === 'disconnected', {
      what: 'the loss',
    });
    const { code, of } = await doctor();
    expect(of('push')).toMatchObject([{ state: 'warn' }]);
    expect(of('redis')).toMatchObject([{ state: 'warn' }]);
    expect(code).toBe(0);
  });

  it('says so of the database', async () => {
    const { of } = await doctor({ DATABASE_URL: 'postgres://127.0.0.1:1/x' });
    expect(of('database')).toMatchObject([{ state: 'ok' }, { state: 'fail' }]);
  });

  it('says so of a sidecar that was named, and does not know of one that was not', async () => {
    await sidecar.stop();
    expect((await doctor()).of('sidecar')).toMatchObject([{ state: 'unknown' }]);
    const named = await doctor({}, ['--sidecar', sidecar.origin, plane.origin]);
    expect(named.of('sidecar')).toMatchObject([
      { state: 'fail', message: expect.stringMatching(/cannot be reached/) },
      { state: 'fail', message: expect.stringMatching(/is no sidecar/) },
    ]);
  });
});
