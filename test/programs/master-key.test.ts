import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { masterKeyId } from '../../shared/crypto/seal.ts';
import { must } from '../../shared/errors/assert.ts';
import { freePort } from '../support/base/free-port.ts';
import { call } from '../support/base/http-client.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { until } from '../support/base/until.ts';
import { type TestDatabase, testDatabase } from '../support/database/postgres.ts';
import { type Installation, installation, type Running } from '../support/programs/installation.ts';
import { bundledPrograms } from '../support/programs/programs.ts';

const old = randomBytes(32);
const next = randomBytes(32);
/** Enough of them that a kill comes in the middle. */
const answers = 400;

let database: TestDatabase;
let service: Installation;
let folder: ReturnType<typeof temporaryFolder>;
beforeAll(async () => {
  database = await testDatabase();
  folder = temporaryFolder();
  for (const [name, key] of [
    ['old-master-key', old],
    ['new-master-key', next],
  ] as const)
    writeFileSync(join(folder.path, name), key.toString('base64url'), { mode: 0o600 });
  service = await installation(await bundledPrograms(), {
    databaseUrl: database.url,
    secrets: {
      adminKey: `at_live_${randomBytes(24).toString('hex')}`,
      masterKey: old.toString('base64url'),
    },
  });
});
afterAll(async () => {
  await service?.close();
  folder?.remove();
  await database?.drop();
});

/** Steps 2, 3 and 5 of the page, as environments. */
const steps = (): readonly Readonly<Record<string, string>>[] => {
  const page = readFileSync(
    fileURLToPath(new URL('../../docs/operate/hardening.md', import.meta.url)),
    'utf8',
  );
  const blocks = [...page.matchAll(/^```ini\n([\s\S]*?)^```$/gm)].map(([, text = '']) => text);
  return blocks
    .filter((text) => text.includes('new-master-key'))
    .map((text) => ({
      MASTER_KEY: '',
      ...Object.fromEntries(
        text
          .trim()
          .split('\n')
          .map((line) => line.split('='))
          .map(([name = '', file = '']) => [name, join(folder.path, file)]),
      ),
    }));
};
const masterKeyOf = async ({ origin }: Running): Promise<string> =>
  (await call(`${origin}/readyz`)).body.master_key;

/** Answers whose token the new key has sealed. */
const resealed = async (): Promise<number> => {
  const [row] = await database.sql<{ count: number }[]>`
    SELECT count(*) AS count FROM idempotent_answers
    WHERE strpos(body, ${`"jwt":"v2.${masterKeyId(next)}.`}) > 0`;
  return row?.count ?? 0;
};

const post = ({ origin }: Running, path: string, body: object, headers = {}) =>
  call(`${origin}/v1${path}`, { method: 'POST', key: service.adminKey, body, headers });
const issue = (at: Running, n: number) =>
  post(
    at,
    '/passports',
    { agent_id: `agent-${n}`, permissions: ['orders:create'] },
    { 'idempotency-key': `${n}` },
  );

/** What a start says that is refused. */
async function refusal(env: Readonly<Record<string, string>>): Promise<string> {
  const program = (await bundledPrograms()).start(['control-plane'], {
    PORT: String(await freePort()),
    DATA_DIR: join(folder.path, 'refused'),
    DATABASE_URL: database.url,
    ADMIN_API_KEY: service.adminKey,
    ...env,
  });
  expect(await program.exited).toBe(1);
  return program.output();
}

it('MASTER_KEY changes as docs/operate/hardening.md says, through wrong orders and kill -9', async () => {
  const [both, exchanged, alone, ...more] = steps();
  expect(more).toEqual([]);
  const first = await service.startControlPlane();
  const gate = await service.createGate();
  const issued = [];
  for (let n = 0; n < answers; n++) issued.push((await issue(first, n)).body.jwt);

  // Step 3 before step 2.
  expect(await refusal(must(exchanged, 'step 3'))).toMatch(
    /would seal what control plane \w+, which runs, cannot open\. First add it/,
  );
  expect(await resealed()).toBe(0);
  await first.stop();

  const [one, two] = [await service.startControlPlane(both), await service.startControlPlane(both)];
  expect(await masterKeyOf(one)).toBe('settled');
  await one.stop('SIGKILL');
  const ahead = await service.startControlPlane(exchanged);
  await until(async () => (await masterKeyOf(ahead)) === 'waiting', { what: 'a replica that waits' });
  expect(await resealed()).toBe(0);
  // Both open what either seals.
  for (const each of [ahead, two]) expect(await issue(each, 0)).toMatchObject({ body: { jwt: issued[0] } });
  await two.stop();
  await until(async () => (await resealed()) > 0, { what: 'the first answer' });
  await ahead.stop('SIGKILL');
  expect(await resealed()).toBeLessThan(answers);

  // Step 5 too early.
  expect(await refusal(must(alone, 'step 5'))).toMatch(
    /is still in use: it seals \d+ .*Add it to MASTER_KEY_FALLBACKS/,
  );
  const again = [await service.startControlPlane(exchanged), await service.startControlPlane(exchanged)];
  for (const each of again)
    await until(async () => (await masterKeyOf(each)) === 'settled', { what: 'a settled master key' });
  expect(await resealed()).toBe(answers);
  for (const each of again) await each.stop();

  const last = await service.startControlPlane({
    MASTER_KEY: '',
    MASTER_KEY_COMMAND: JSON.stringify(['cat', join(folder.path, 'new-master-key')]),
  });
  expect(await masterKeyOf(last)).toBe('settled');
  for (let n = 0; n < answers; n += 97)
    expect(await issue(last, n)).toMatchObject({ body: { jwt: issued[n] } });
  const order = { passport: issued[0], request: { permission_key: 'orders:create' } };
  expect(await post(last, `/gates/${gate}/check`, order)).toMatchObject({ body: { decision: 'PERMIT' } });
  await last.stop();
  expect(await refusal({ MASTER_KEY: old.toString('base64url') })).toContain(
    `The id of the key that is in use is ${masterKeyId(next)}`,
  );
}, 240_000);
