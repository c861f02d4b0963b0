import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { connect } from '../../control-plane/storage/connect.ts';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { must } from '../../shared/errors/assert.ts';
import { renderVkey } from '../../shared/log/note.ts';
import { dayMs } from '../../shared/model/time.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { call, type Reply } from '../support/base/http-client.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { until } from '../support/base/until.ts';
import type { Installation, Running } from '../support/programs/installation.ts';
import type { Programs } from '../support/programs/programs.ts';
import { testWitness } from '../support/service/witnesses.ts';
import { order, useWorld } from './use-world.ts';

const preload = `--import ${fileURLToPath(new URL('../support/peers/wrong-clock.mjs', import.meta.url))}`;

/** The log of an installation whose clients reach it there. */
const logOf = (publicUrl: string): string => `${new URL(publicUrl).host}/log`;

/**
 * What only time and a disaster leave in a database: an archive of what `fillPast` made, a witness of the
 * log, and a history that went back to a backup and was recovered. Starts both programs and lets them run.
 */
export async function fillHistory(
  world: Installation,
  options: { readonly programs: Programs; readonly databaseUrl: string; readonly publicUrl: string },
) {
  const folder = temporaryFolder();
  const policyFile = join(folder.path, 'witnesses.policy');
  // A witness shows its key before there is a log, and learns of the log afterwards.
  const { publicKey: noKey } = chooseEd25519().signer(Buffer.alloc(32, 1));
  const unborn = await testWitness('w1', `log ${renderVkey('example.com/log', 1, noKey)}\n`, { folder });
  writeFileSync(policyFile, `witness w1 ${unborn.vkey} ${unborn.origin}/\nquorum none\n`);
  await unborn.close();
  const controlPlane = await world.startControlPlane({ LOG_WITNESSES: policyFile });
  const { keys } = (await call(`${controlPlane.origin}/.well-known/jwks.json`)).body;
  const { x } = must<{ x: string }>(
    keys.find(({ purpose }: { purpose: string }) => purpose === 'log'),
    'a key of the log',
  );
  const line = `log ${renderVkey(logOf(options.publicUrl), 1, Buffer.from(x, 'base64url'))}\n`;
  const witness = await testWitness('w1', line, { folder, port: Number(new URL(unborn.origin).port) });
  try {
    await archive(world, controlPlane.origin, options.programs, join(folder.path, 'archives'));
    const sidecar = await world.startSidecar();
    await goBackAndRecover(world, { controlPlane, sidecar }, options.databaseUrl);
    return { controlPlane, sidecar, recoveredAtMs: systemClock.now() };
  } finally {
    await witness.remove();
  }
}

/** Two months ago, when a month was that is over for long enough to be archived. */
const agoMs = 61 * dayMs;

/**
 * The beginning of the installation, two months ago: records of a passport, and of another account. `install`
 * starts programs with these settings on the database, which is empty.
 */
export async function fillPast(
  databaseUrl: string,
  install: (env: Readonly<Record<string, string>>) => Promise<Installation>,
) {
  const sql = connect({ url: databaseUrl, connectionsMax: 1 });
  // What migrations make in the meantime keeps these functions: they are set right, and not removed.
  const setBack = async (byMs: number) => {
    for (const [name, kind] of [
      ['clock_timestamp', 'VOLATILE'],
      ['statement_timestamp', 'STABLE'],
      ['now', 'STABLE'],
    ])
      await sql.unsafe(`
        CREATE OR REPLACE FUNCTION public.${name}() RETURNS timestamptz LANGUAGE sql ${kind}
          AS $$ SELECT pg_catalog.${name}() - interval '${byMs} milliseconds' $$`);
  };
  await setBack(agoMs);
  const [row] = await sql<[{ name: string }]>`SELECT quote_ident(current_database()) AS name`;
  await sql.unsafe(`ALTER DATABASE ${row.name} SET search_path = public, pg_catalog`);
  const world = await install({ NODE_OPTIONS: preload, CLOCK_AHEAD_MS: String(-agoMs) });
  try {
    const controlPlane = await world.startControlPlane();
    const { create, gate, check, expectDecision } = useWorld(world);
    const { gate_id: gateId } = await gate('of two months ago');
    const passport = await create('/passports', {
      ...{ agent_id: 'old', permissions: ['orders:create'], expires_in_days: 3_650 },
    });
    for (let i = 0; i < 2; i++) await expectDecision('PERMIT', check(controlPlane, gateId, passport, order));
    const other = await create('/accounts', { name: 'Old', plan: 'pro' });
    const { body: theirs } = await call(`${controlPlane.origin}/v1/gates`, {
      ...{ key: other.api_key.key, body: { name: 'of another account', trust_level: 'L1' } },
    });
    await check(controlPlane, theirs.gate_id, { jwt: 'not.a.token' }, order, other.api_key.key);
    await controlPlane.stop();
    return { gateId: gateId as string, passport };
  } finally {
    await world.close();
    await setBack(0);
    await sql.end();
  }
}

/** By the account first, which keeps records for a month, and of all accounts after it. */
async function archive(world: Installation, origin: string, programs: Programs, folder: string) {
  await useWorld(world).send('PUT', '/attestations/retention', { days: 30 });
  const env = { AGENT_TRUST_URL: origin, AGENT_TRUST_API_KEY: world.adminKey };
  const now = new Date();
  const lastMonth = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - 1, 1)).toISOString();
  for (const what of [['--due'], ['--before', lastMonth.slice(0, 'yyyy-mm'.length)]]) {
    const program = programs.start(['attestations', 'archive', ...what, '--to', folder, '--apply'], env);
    if ((await program.exited) !== 0) throw new Error(`archive: ${program.output()}`);
  }
}

/**
 * A backup takes the place of the database, after a sidecar and a witness have seen what it lacks: more
 * records, changes and entries of the log, a passport that was revoked, and one that it does not know.
 */
async function goBackAndRecover(
  world: Installation,
  { controlPlane, sidecar }: { readonly controlPlane: Running; readonly sidecar: Running },
  databaseUrl: string,
): Promise<void> {
  const { create, gate, check, expectDecision } = useWorld(world);
  const limit = { rate_limits: { requests_per_day: 1_000 } };
  const { gate_id: gateId } = await gate('before and after', { constraints: limit });
  const issue = (agent: string) => create('/passports', { agent_id: agent, permissions: ['orders:create'] });
  const [kept, ended] = [await issue('kept'), await issue('ended')];
  const isDecided = (passport: Reply['body'], reason: string | null) => async () =>
    (await check(sidecar, gateId, passport, order)).reason === reason;
  await until(isDecided(ended, null), { what: 'a sidecar that knows the gate' });
  // What it holds goes back.
  await sidecar.restart('SIGTERM');
  await controlPlane.stop();
  const { pathname } = new URL(databaseUrl);
  const name = pathname.slice(1);
  await asAdmin(databaseUrl, `CREATE DATABASE older TEMPLATE ${name}`);
  await controlPlane.start();

  const lost = await issue('lost');
  await until(isDecided(kept, null), { what: 'a decision that the backup lacks' });
  const last = await expectDecision('PERMIT', check(sidecar, gateId, kept, order));
  for (const { passport_id: id } of [ended, lost]) await create(`/passports/${id}/revoke`, {});
  for (const passport of [ended, lost])
    await until(isDecided(passport, 'passport_revoked'), { what: 'a sidecar that knows what was revoked' });
  const proof = `/attestations/${last.attestation_id}/proof`;
  await until(async () => (await world.api('GET', proof)).status === 200, {
    what: 'a proof',
    timeoutMs: 60_000,
  });
  await controlPlane.stop();
  await asAdmin(databaseUrl, `DROP DATABASE ${name} WITH (FORCE)`);
  await asAdmin(databaseUrl, `CREATE DATABASE ${name} TEMPLATE older`);
  await asAdmin(databaseUrl, 'DROP DATABASE older');
  await controlPlane.start();
  const recover = async (apply: boolean) =>
    (await create('/sync/history/recover', { apply })) as Reply['body'];
  await until(
    async () => {
      const { history } = (await call(`${controlPlane.origin}/readyz`)).body;
      const isKnown = history.missing?.entries > 0 && history.missing.records > 0;
      return isKnown && (await recover(false)).taken_back.length === 2;
    },
    { what: 'all that is missing', timeoutMs: 60_000 },
  );
  if ((await recover(true)).state !== 'whole') throw new Error('the history is not whole');
  await until(async () => (await world.api('GET', `/attestations/${last.attestation_id}`)).status === 200, {
    what: 'the lost record, handed in again',
  });
}

/** From `template1`: a database that is copied must have no session. */
async function asAdmin(databaseUrl: string, statement: string): Promise<void> {
  const url = new URL(databaseUrl);
  url.pathname = '/template1';
  const sql = connect({ url: url.href, connectionsMax: 1 });
  await sql.unsafe(statement);
  await sql.end();
}
