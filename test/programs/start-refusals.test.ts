import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type DebianPostgres, makeOwnedDatabase } from '../../bench/harness/debian-postgres.ts';
import type { Database } from '../../control-plane/base/database.ts';
import { startControlPlane } from '../../control-plane/main.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { parseSettings } from '../../shared/runtime/settings.ts';
import { StartError } from '../../shared/runtime/start-error.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { testDebianPostgres } from '../support/run/debian-postgres.ts';

/** What a database refuses to a start: it ends at once, with the reason and the step to take. */
const folder = temporaryFolder();
let server: DebianPostgres;
let admin: Database;
let owned: string;
beforeAll(async () => {
  server = await testDebianPostgres();
  owned = await makeOwnedDatabase(server.url);
  admin = connect({ url: server.url, connectionsMax: 1 });
});
afterAll(async () => {
  await admin.end({ timeout: 1 });
  await server.stop();
  folder.remove();
});

/** What the start says; it must be a sentence for people, with no secret. */
async function refusalOf(url: string): Promise<string> {
  const settings = parseSettings(['control-plane'], {
    DATABASE_URL: url,
    MASTER_KEY: randomBytes(32).toString('base64url'),
    DATA_DIR: folder.path,
    PORT: '0',
  });
  const { signal } = new AbortController();
  const started = startControlPlane(settings, { logger: silentLogger, signal });
  const error = await started.then(
    async (running) => {
      await running.close();
      return null;
    },
    (reason: unknown) => reason,
  );
  if (!(error instanceof StartError)) throw error ?? new Error('it has started');
  expect(error.message).not.toContain(new URL(url).password);
  return error.message;
}

const changed = (change: { username?: string; password?: string; pathname?: string }): string =>
  Object.assign(new URL(owned), change).href;

it('names a wrong password', async () => {
  const said = await refusalOf(changed({ password: 'wrong-password' }));
  expect(said).toContain('Correct user and password in DATABASE_URL');
});

it('names a database that is missing, and how to make it', async () => {
  const said = await refusalOf(changed({ pathname: '/not-there' }));
  expect(said).toContain('CREATE DATABASE "not-there" OWNER agent_trust;');
});

it('names a role that may not connect', async () => {
  await admin.unsafe('CREATE ROLE stranger LOGIN PASSWORD $$stranger-word$$');
  await admin.unsafe('REVOKE CONNECT ON DATABASE agent_trust FROM PUBLIC');
  const said = await refusalOf(changed({ username: 'stranger', password: 'stranger-word' }));
  await admin.unsafe('GRANT CONNECT ON DATABASE agent_trust TO PUBLIC');
  expect(said).toContain('GRANT CONNECT ON DATABASE agent_trust TO stranger;');
});

it('names the GRANT for a role that may not create tables: any but the owner, from PostgreSQL 15 on', async () => {
  await admin.unsafe('CREATE ROLE guest LOGIN PASSWORD $$guest-word$$');
  const url = changed({ username: 'guest', password: 'guest-word' });
  expect(await refusalOf(url)).toContain('GRANT CREATE ON SCHEMA public TO guest;');
});

it('names a search_path that leads nowhere', async () => {
  await admin.unsafe('ALTER ROLE agent_trust SET search_path = nowhere');
  const said = await refusalOf(owned);
  await admin.unsafe('ALTER ROLE agent_trust RESET search_path');
  expect(said).toContain('CREATE SCHEMA public AUTHORIZATION agent_trust;');
});

it('names a database that is set to take no writes', async () => {
  await admin.unsafe('ALTER DATABASE agent_trust SET default_transaction_read_only = on');
  const said = await refusalOf(owned);
  await admin.unsafe('ALTER DATABASE agent_trust RESET default_transaction_read_only');
  expect(said).toContain(
    'ALTER ROLE agent_trust IN DATABASE agent_trust SET default_transaction_read_only = off;',
  );
});

it('names tables that belong to another role', async () => {
  await startAndStop(owned);
  await admin.unsafe('CREATE ROLE second LOGIN PASSWORD $$second-word$$');
  const schema = connect({ url: Object.assign(new URL(server.url), { pathname: '/agent_trust' }).href });
  await schema.unsafe('GRANT CREATE ON SCHEMA public TO second');
  await schema.end({ timeout: 1 });
  const said = await refusalOf(changed({ username: 'second', password: 'second-word' }));
  expect(said).toContain('make second their owner');
});

async function startAndStop(url: string): Promise<void> {
  await expect(refusalOf(url)).rejects.toThrow('it has started');
}
