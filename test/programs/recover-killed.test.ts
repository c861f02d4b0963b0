import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Database } from '../../control-plane/base/database.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { call } from '../support/base/http-client.ts';
import { until } from '../support/base/until.ts';
import { testDatabase } from '../support/database/postgres.ts';
import { type Installation, installation, type Running } from '../support/programs/installation.ts';
import { bundledPrograms } from '../support/programs/programs.ts';

/** Each step of a recovery is held up by a lock of the test, and the control plane is killed there. */
describe('a recovery', () => {
  let database: Awaited<ReturnType<typeof testDatabase>>;
  let sql: Database;
  let world: Installation;
  let controlPlane: Running;

  beforeAll(async () => {
    const programs = await bundledPrograms();
    database = await testDatabase();
    sql = connect({ url: database.url, connectionsMax: 4 });
    world = await installation(programs, { databaseUrl: database.url });
    controlPlane = await world.startControlPlane();
  });
  afterAll(async () => {
    await world?.close();
    await sql?.end();
    await database?.drop();
  });

  const recover = (apply: boolean) => world.api('POST', '/sync/history/recover', { apply });

  /** What was taken away, and is there again as after a restore; a chain has lost 7 places. */
  async function regress() {
    const [revoked, suspended] = [await world.issuePassport(), await world.issuePassport()];
    const gateId = await world.createGate();
    const { body: key } = await world.api('POST', '/api-keys', { name: 'k', scopes: ['gates:read'] });
    const { body: issuer } = await world.api('POST', '/issuers', { name: 'Issuer', trust_tier: 'L1' });
    const { body: tenant } = await world.api('POST', '/accounts', { name: 'Tenant', plan: 'enterprise' });
    const [{ account_id: accountId } = { account_id: '' }] = await sql<{ account_id: string }[]>`
      SELECT account_id FROM accounts WHERE is_operator`;
    const ends = [
      ['account', tenant.account_id, tenant.account_id, null, 'suspended'],
      ['api_key', key.key_id, accountId, 'live', 'deleted'],
      ['gate', gateId, accountId, 'live', 'deleted'],
      ['issuer', issuer.issuer_id, accountId, 'live', 'suspended'],
      ['passport', revoked.id, accountId, 'live', 'revoked'],
      ['passport', suspended.id, accountId, 'live', 'suspended'],
    ] as const;
    for (const [kind, id, owner, mode, standing] of ends) {
      await sql`INSERT INTO known_ends (in_generation, kind, id, account_id, mode, standing)
        SELECT max(number), ${kind}, ${id}, ${owner}, ${mode}, ${standing} FROM generations`;
    }
    await sql`INSERT INTO known_places (in_generation, chain_id, sequence, hash, lost, noticed_at_ms)
      SELECT max(number), ${revoked.id}, 7, ${`sha256:${'a'.repeat(64)}`}, 7, 1 FROM generations`;
    await until(
      async () => (await call(`${controlPlane.origin}/readyz`)).body.history.state === 'regressed',
      {
        what: 'it is known',
      },
    );
    return { ends, chainId: revoked.id };
  }

  /** Where the recovery waits for this lock, its program is killed; what it began is undone with it. */
  async function killAt(lock: (tx: Database) => Promise<unknown>) {
    let open: () => void = () => undefined;
    const isKilled = new Promise<void>((resolve) => {
      open = resolve;
    });
    let taken: () => void = () => undefined;
    const isTaken = new Promise<void>((resolve) => {
      taken = resolve;
    });
    const held = sql.begin(async (tx) => {
      await lock(tx as unknown as Database);
      taken();
      await isKilled;
    });
    await Promise.race([isTaken, held]);
    const answer = recover(true).then(
      ({ status }) => status,
      () => 'no answer',
    );
    const waits = async () => {
      const [row] = await sql<{ count: number }[]>`
        SELECT count(*)::int AS count FROM pg_stat_activity
        WHERE wait_event_type = 'Lock' AND datname = current_database()`;
      return (row?.count ?? 0) > 0;
    };
    await until(waits, { what: 'it waits for the lock' });
    await controlPlane.stop('SIGKILL');
    open();
    await held;
    expect(await answer).toBe('no answer');
    await controlPlane.start();
  }

  const rowOf: Readonly<Record<string, readonly [table: string, id: string]>> = {
    account: ['accounts', 'account_id'],
    api_key: ['api_keys', 'key_id'],
    gate: ['gates', 'gate_id'],
    issuer: ['issuers', 'issuer_id'],
    passport: ['passports', 'passport_id'],
  };

  it('killed with kill -9 at each step goes on and ends as if it had not been', async () => {
    const { ends, chainId } = await regress();
    const left: number[] = [];
    const generation = (await recover(false)).body.generation;
    for (const [kind, id] of ends) {
      const [table, column] = rowOf[kind] ?? ['', ''];
      await killAt((tx) => tx`SELECT FROM ${tx(table)} WHERE ${tx(column)} = ${id} FOR UPDATE`);
      const plan = (await recover(false)).body;
      left.push(plan.taken_back.length);
      expect(plan).toMatchObject({ state: 'regressed', generation, lost: [{ records: 7 }] });
    }
    // Each time everything before the lock was done, and stays so.
    expect(left).toEqual([6, 5, 4, 3, 2, 1]);
    await killAt((tx) => tx`SELECT FROM generations WHERE number = 1 FOR UPDATE`);
    expect((await recover(false)).body).toMatchObject({ state: 'regressed', generation, taken_back: [] });
    // The chain of the audit is the last lock.
    await killAt((tx) => tx`SELECT FROM audit_chains FOR UPDATE`);
    expect((await recover(false)).body).toMatchObject({ state: 'regressed', generation });

    const { body: done } = await recover(true);
    expect(done).toMatchObject({ state: 'whole', applied: true, taken_back: [] });
    expect(await recover(true)).toMatchObject({ body: { state: 'whole', applied: false } });
    const operations = (await world.api('GET', '/audit?limit=100')).body.entries.map(
      ({ operation, target }: { operation: string; target: string }) => `${operation} ${target}`,
    );
    for (const [kind, id, , , standing] of ends) {
      const wanted = {
        account: 'updateAccount',
        issuer: 'updateIssuer',
        gate: 'deleteGate',
        api_key: 'deleteApiKey',
      };
      const passport = standing === 'revoked' ? 'revokePassport' : 'suspendPassport';
      const name = kind === 'passport' ? passport : wanted[kind];
      expect(operations.filter((each: string) => each === `${name} ${id}`)).toHaveLength(1);
    }
    expect(operations.filter((each: string) => each.startsWith('recoverHistory'))).toEqual([
      `recoverHistory ${done.generation}`,
    ]);
    expect(await sql`SELECT sequence FROM chains WHERE chain_id = ${chainId}`).toEqual([{ sequence: 7 }]);
    expect(await sql`SELECT count(*)::int AS count FROM generations`).toEqual([{ count: 2 }]);
  });
});
