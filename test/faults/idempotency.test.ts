import type { FastifyInstance } from 'fastify';
import { Registry } from 'prom-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { build } from '../../control-plane/app.ts';
import type { Database, Transaction } from '../../control-plane/base/database.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { limits } from '../../shared/model/limits.ts';
import { until } from '../support/base/until.ts';
import { waitingForTable } from '../support/database/postgres.ts';
import { startOwnApi } from '../support/service/api.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
let other: FastifyInstance;
const closers: (() => Promise<void>)[] = [];
beforeAll(async () => {
  other = replica();
});
afterAll(async () => {
  for (const close of closers) await close();
});

/**
 * Another control plane on the same database, with a pool of its own. What is given stands in for its part.
 */
function replica(faulty: { sql?: (sql: Database) => Database } = {}): FastifyInstance {
  const own = connect({ url: api.databaseUrl, connectionsMax: 6 });
  const sql = faulty.sql?.(own) ?? own;
  const app = build({ ...api.deps, sql, metrics: new Registry() });
  closers.push(async () => {
    await app.close();
    await own.end({ timeout: 1 });
  });
  return app;
}

interface Wanted {
  readonly agent_id: string;
  readonly permissions: readonly string[];
}

let made = 0;
const newWanted = (): Wanted => ({ agent_id: `agent-${made++}`, permissions: ['orders:create'] });

/** Issues a passport under an Idempotency-Key that is the agent's id. */
async function issue(app: FastifyInstance, wanted: Wanted) {
  const response = await app.inject({
    method: 'POST',
    url: '/v1/passports',
    headers: { authorization: `Bearer ${api.adminKey}`, 'idempotency-key': wanted.agent_id },
    payload: wanted,
  });
  return {
    status: response.statusCode,
    body: response.json(),
    isReplayed: response.headers['idempotent-replayed'] === 'true',
  };
}

const passportsOf = ({ agent_id }: Wanted) =>
  api.deps.sql<{ id: string }[]>`SELECT passport_id AS id FROM passports WHERE agent_id = ${agent_id}`;
const answersTo = ({ agent_id }: Wanted) =>
  api.deps.sql`SELECT 1 FROM idempotent_answers WHERE idempotency_key = ${agent_id}`;

/** Exactly one passport, and an answer that names it. */
async function expectOnce(wanted: Wanted, answer: { status: number; body: { passport_id: string } }) {
  expect(answer.status).toBe(201);
  expect((await passportsOf(wanted)).map(({ id }) => id)).toEqual([answer.body.passport_id]);
  expect(await answersTo(wanted)).toHaveLength(1);
}

/**
 * Keeps every passport from being written until it is released, so that a request stays in the middle of its
 * work.
 */
async function holdPassports(): Promise<{ waiting(): Promise<number[]>; release(): Promise<void> }> {
  const holder = await api.deps.sql.reserve();
  await holder`BEGIN`;
  await holder`LOCK TABLE passports IN EXCLUSIVE MODE`;
  return {
    waiting: () => waitingForTable(api.deps.sql, 'passports'),
    release: async () => {
      await holder`ROLLBACK`;
      holder.release();
    },
  };
}

const beginOf = (sql: Database, begin: (work: (tx: Transaction) => Promise<unknown>) => unknown): Database =>
  new Proxy(sql, {
    get: (target, name) => (name === 'begin' ? begin : Reflect.get(target, name)),
  });

/** The database, with the arguments of each statement of a transaction as this makes them. */
const through = (sql: Database, change: (args: readonly unknown[]) => readonly unknown[]): Database =>
  beginOf(sql, (work) =>
    sql.begin((tx) =>
      work(new Proxy(tx, { apply: (target, self, args) => Reflect.apply(target, self, change(args)) })),
    ),
  );

const connectionClosed = () =>
  Object.assign(new Error('write CONNECTION_CLOSED'), { code: 'CONNECTION_CLOSED' });

describe('concurrent duplicates', () => {
  it('create one thing, on whichever replica they arrive', async () => {
    const name = `only-${made++}`;
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, index) =>
        (index % 2 === 0 ? api.app : other).inject({
          method: 'POST',
          url: '/v1/issuers',
          headers: { authorization: `Bearer ${api.adminKey}`, 'idempotency-key': name },
          payload: { name },
        }),
      ),
    );
    expect(answers.map(({ statusCode }) => statusCode)).toEqual(Array(12).fill(201));
    expect(answers.filter(({ headers }) => headers['idempotent-replayed'] === undefined)).toHaveLength(1);
    expect(new Set(answers.map(({ payload }) => payload)).size).toBe(1);
    expect(await api.deps.sql`SELECT 1 FROM issuers WHERE name = ${name}`).toHaveLength(1);
  });

  it('wait for 5 s, then answer 409; the first is not disturbed by having worked longer than that', async () => {
    // The wait of the second is shortened, and its being 5 s is read.
    const whole = String(limits.idempotencyWaitMsMax);
    let waits = 0;
    const impatient = replica({
      sql: (sql) =>
        through(sql, (args) =>
          args.map((each) => {
            if (each === whole) waits += 1;
            return each === whole ? '50' : each;
          }),
        ),
    });
    const wanted = newWanted();
    const hold = await holdPassports();
    const first = issue(api.app, wanted);
    await until(async () => (await hold.waiting()).length === 1, { what: 'the first is at work' });
    const second = await issue(impatient, wanted);
    expect([second.status, second.body.error.code, waits]).toEqual([409, 'idempotency_conflict', 1]);
    expect(second.body.error.message).toContain('still in progress');
    await hold.release();
    expect((await first).isReplayed).toBe(false);
    await expectOnce(wanted, await first);
    expect((await issue(other, wanted)).isReplayed).toBe(true);
  });
});

describe('a crash', () => {
  it('in the middle of the work undoes it, and a waiting request creates the resource', async () => {
    const wanted = newWanted();
    const hold = await holdPassports();
    const first = issue(api.app, wanted);
    await until(async () => (await hold.waiting()).length === 1, { what: 'the first is at work' });
    const second = issue(other, wanted);
    const [backend] = await hold.waiting();
    await api.deps.sql`SELECT pg_terminate_backend(${backend ?? 0})`;
    expect((await first).status).toBe(503);
    await hold.release();
    expect((await second).isReplayed).toBe(false);
    await expectOnce(wanted, await second);
    expect((await issue(api.app, wanted)).isReplayed).toBe(true);
  });

  it('before any statement of the transaction leaves nothing, or all of it', async () => {
    let statement = 1;
    let sent = 0;
    const failing = replica({
      sql: (sql) =>
        through(sql, (args) => {
          sent += 1;
          if (sent === statement) throw connectionClosed();
          return args;
        }),
    });
    for (; ; statement++) {
      const wanted = newWanted();
      sent = 0;
      const attempt = await issue(failing, wanted);
      const isThere = attempt.status === 201;
      expect([201, 503]).toContain(attempt.status);
      expect(await passportsOf(wanted)).toHaveLength(isThere ? 1 : 0);
      expect(await answersTo(wanted)).toHaveLength(isThere ? 1 : 0);
      const retry = await issue(other, wanted);
      expect(retry.isReplayed).toBe(isThere);
      await expectOnce(wanted, retry);
      if (!isThere) continue;
      expect(statement).toBeGreaterThan(8);
      return;
    }
  });

  it('after the commit, with its outcome unknown here, is repaired by asking again', async () => {
    const wanted = newWanted();
    const failing = replica({
      sql: (sql) =>
        beginOf(sql, async (work) => {
          await sql.begin(work);
          throw connectionClosed();
        }),
    });
    expect((await issue(failing, wanted)).status).toBe(503);
    expect(await passportsOf(wanted)).toHaveLength(1);
    const retry = await issue(api.app, wanted);
    expect(retry.isReplayed).toBe(true);
    expect(retry.body.jwt.split('.')).toHaveLength(3);
    expect(retry.body).not.toHaveProperty('private_key');
    await expectOnce(wanted, retry);
  });
});

describe('a refusal', () => {
  it('gives way to what another request with the key has created meanwhile', async () => {
    const wanted = newWanted();
    const taken = await api.issuePassport({ agent_id: wanted.agent_id });
    let begun = 0;
    const slow = replica({
      sql: (sql) =>
        beginOf(sql, async (work) => {
          begun += 1;
          // The second transaction stores the refusal of the first.
          if (begun === 2) {
            await api.call({ method: 'POST', url: `/v1/passports/${taken.passport_id}/revoke` });
            expect((await issue(api.app, wanted)).status).toBe(201);
          }
          return sql.begin(work);
        }),
    });
    const answer = await issue(slow, wanted);
    expect(begun).toBe(2);
    expect(answer.status).toBe(201);
    expect(answer.isReplayed).toBe(true);
    expect((await passportsOf(wanted)).map(({ id }) => id).toSorted()).toEqual(
      [taken.passport_id, answer.body.passport_id].toSorted(),
    );
  });

  it('that cannot be stored is not answered: 503, and nothing is kept', async () => {
    const { agent_id } = await api.issuePassport({ agent_id: newWanted().agent_id });
    let begun = 0;
    const failing = replica({
      sql: (sql) =>
        beginOf(sql, async (work) => {
          begun += 1;
          if (begun === 2) throw connectionClosed();
          return sql.begin(work);
        }),
    });
    const wanted = { agent_id, permissions: [] };
    const answer = await issue(failing, wanted);
    expect(answer.status).toBe(503);
    expect(answer.body.error.code).toBe('service_unavailable');
    expect(await answersTo(wanted)).toHaveLength(0);
    expect((await issue(api.app, wanted)).status).toBe(409);
  });
});
