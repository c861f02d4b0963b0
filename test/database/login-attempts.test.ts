import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Database } from '../../control-plane/base/database.ts';
import { peopleLimits } from '../../control-plane/people/limits.ts';
import { type LoginOrigin, loginAttempts } from '../../control-plane/people/login-attempts.ts';
import type { ApiError } from '../../shared/errors/api-error.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { hourMs, minuteMs, secondMs, type UnixMillis } from '../../shared/model/time.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { until } from '../support/base/until.ts';
import { codedError, faultySql } from '../support/database/faulty-sql.ts';
import { waitingForTable } from '../support/database/postgres.ts';
import { useDatabase } from '../support/database/use-database.ts';

const database = useDatabase();
let aheadMs = 0;
beforeEach(() => {
  aheadMs = 0;
});
afterEach(() => database.sql`DELETE FROM login_attempts`);

const clock = {
  now: () => (systemClock.now() + aheadMs) as UnixMillis,
  monotonic: systemClock.monotonic,
};
/** Those of one control plane. */
const attemptsAt = (sql: Database = database.sql) => loginAttempts({ sql, clock, logger: silentLogger });
const stranger = (email: string | null, address = '192.0.2.1'): LoginOrigin => ({
  email,
  address,
  device: null,
});
const known = (device: string): LoginOrigin => ({ ...stranger('ada@example.com'), device });

/** What was thrown; null: the attempt was allowed. */
const refusalOf = (attempt: Promise<unknown>): Promise<ApiError | null> =>
  attempt.then(
    () => null,
    (error: ApiError) => error,
  );
const codeOf = async (attempt: Promise<unknown>) => (await refusalOf(attempt))?.code ?? 'allowed';
const times = <T>(count: number, work: (index: number) => T): T[] =>
  Array.from({ length: count }, (_each, index) => work(index));

describe('attempts to log in are counted over all control planes', () => {
  it.each<readonly [string, number, (index: number) => LoginOrigin]>([
    ['an address', 10, (index) => stranger('ada@example.com', `192.0.2.${index}`)],
    ['a network', 100, (index) => stranger(`user-${index}@example.com`)],
    ['a network of logins that name nobody', 100, () => stranger(null)],
    ['a browser that is known', 10, () => known('laptop')],
  ])('by %s', async (_by, max, origin) => {
    const replicas = [attemptsAt(), attemptsAt()];
    const beganAtMs = clock.now();
    const codes = await Promise.all(
      times(max + 20, (index) => codeOf(replicas[index % 2]?.begin(origin(index)) ?? Promise.reject())),
    );
    expect(codes.filter((code) => code === 'allowed')).toHaveLength(max);
    expect(codes.filter((code) => code === 'rate_limited')).toHaveLength(20);
    for (const replica of [...replicas, attemptsAt()]) {
      const refusal = await refusalOf(replica.begin(origin(0)));
      expect(refusal?.code).toBe('rate_limited');
      const leftMs = peopleLimits.attemptWindowMs - (clock.now() - beganAtMs);
      expect(refusal?.retryAfterS).toBeGreaterThanOrEqual(Math.floor(leftMs / secondMs));
      expect(refusal?.retryAfterS).toBeLessThanOrEqual(900);
    }
    aheadMs += peopleLimits.attemptWindowMs;
    expect(await codeOf(attemptsAt().begin(origin(0)))).toBe('allowed');
  });

  it('by the account of the user', async () => {
    const replicas = [attemptsAt(), attemptsAt()];
    const accountId = 'acct_of_many' as AccountId;
    const codes = await Promise.all(
      times(peopleLimits.attemptsPerAccountMax + 10, async (index) => {
        const origin = stranger(`user-${index}@example.com`, `198.51.100.${index % 200}`);
        const attempt = await replicas[index % 2]?.begin(origin);
        return codeOf(attempt?.countFor(accountId) ?? Promise.reject());
      }),
    );
    expect(codes.filter((code) => code === 'allowed')).toHaveLength(peopleLimits.attemptsPerAccountMax);
    const own = await attemptsAt().begin(known('laptop'));
    expect(await codeOf(own.countFor(accountId))).toBe('allowed');
  });

  it('and successes are not, at whichever they happen', async () => {
    const [one, other] = [attemptsAt(), attemptsAt()];
    for (let tries = 0; tries < 15; tries++) {
      for (const replica of [one, other]) await (await replica.begin(stranger('ada@example.com'))).forgive();
    }
    await Promise.all(times(10, () => one.begin(stranger('ada@example.com'))));
    expect(await codeOf(other.begin(stranger('ada@example.com')))).toBe('rate_limited');
  });

  it('and what one count refuses does not use up the other', async () => {
    const [one, other] = [attemptsAt(), attemptsAt()];
    const flood = await Promise.all(times(200, () => codeOf(one.begin(stranger('ada@example.com')))));
    expect(flood.filter((code) => code === 'allowed')).toHaveLength(10);
    // Its network has room for 90 others, as soon as what was refused has been taken back.
    await until(async () => (await total()) === 20, { what: 'refused attempts to be taken back' });
    const codes = await Promise.all(
      times(91, (index) => codeOf(other.begin(stranger(`user-${index}@example.com`)))),
    );
    expect(codes.filter((code) => code === 'allowed')).toHaveLength(90);
  });

  it('in windows that a clock which is set back does not stretch', async () => {
    await Promise.all(times(10, () => attemptsAt().begin(stranger('ada@example.com'))));
    await database.sql`UPDATE login_attempts SET ends_at_ms = ends_at_ms + ${hourMs}`;
    expect(await codeOf(attemptsAt().begin(stranger('ada@example.com')))).toBe('allowed');
    // A little is what two control planes differ by: their counts are one.
    await Promise.all(times(9, () => attemptsAt().begin(stranger('ada@example.com'))));
    aheadMs -= minuteMs;
    expect(await codeOf(attemptsAt().begin(stranger('ada@example.com')))).toBe('rate_limited');
  });
});

const total = async (): Promise<number> => {
  const [row] = await database.sql<[{ total: number }]>`
    SELECT coalesce(sum(attempts), 0)::integer AS total FROM login_attempts`;
  return row.total;
};

/** The database, with a count of the statements that reach it. */
function countingSql() {
  const counted = {
    statements: 0,
    sql: new Proxy(database.sql, {
      apply: (target, self, args) => {
        counted.statements += 1;
        return Reflect.apply(target, self, args);
      },
    }),
  };
  return counted;
}

describe('a flood of attempts', () => {
  it('of ten times the queue costs a few statements, and keeps out no user with a known browser', async () => {
    const counting = countingSql();
    const attempts = attemptsAt(counting.sql);
    const flood = times(10 * peopleLimits.attemptsWaitingMax, (index) =>
      codeOf(attempts.begin(stranger(`user-${index}@example.com`, `10.0.${index >> 8}.${index & 255}`))),
    );
    const own = codeOf(attempts.begin(known('laptop')));
    const codes = await Promise.all(flood);
    expect(await own).toBe('allowed');
    const allowed = codes.filter((code) => code === 'allowed').length;
    expect(allowed).toBeGreaterThanOrEqual(peopleLimits.attemptsWaitingMax);
    expect(allowed).toBeLessThanOrEqual(2 * peopleLimits.attemptsWaitingMax);
    expect(codes.filter((code) => code === 'overloaded')).toHaveLength(codes.length - allowed);
    expect(counting.statements).toBeLessThan(20);
    expect(await codeOf(attempts.begin(stranger('afterwards@example.com')))).toBe('allowed');
  });

  it('against one address costs nothing while that is known to be full', async () => {
    const counting = countingSql();
    const attempts = attemptsAt(counting.sql);
    await Promise.all(times(11, () => codeOf(attempts.begin(stranger('ada@example.com')))));
    await until(async () => (await total()) === 20, { what: 'the refused attempt to be taken back' });
    const before = counting.statements;
    const codes = await Promise.all(times(500, () => codeOf(attempts.begin(stranger('ada@example.com')))));
    expect(new Set(codes)).toEqual(new Set(['rate_limited']));
    expect(counting.statements).toBe(before);
  });

  it('waits for a slow PostgreSQL with one statement, and is bounded meanwhile', async () => {
    const attempts = attemptsAt();
    let flood: Promise<string>[] = [];
    let own: Promise<string> | null = null;
    await database.sql.begin(async (tx) => {
      await tx`LOCK TABLE login_attempts IN EXCLUSIVE MODE`;
      flood = times(2 * peopleLimits.attemptsWaitingMax, (index) =>
        codeOf(attempts.begin(stranger(`user-${index}@example.com`, `10.1.${index >> 8}.${index & 255}`))),
      );
      own = codeOf(attempts.begin(known('laptop')));
      const waiting = async () => (await waitingForTable(tx, 'login_attempts')).length;
      await until(async () => (await waiting()) > 0, { what: 'the first statement to wait' });
      expect(await waiting()).toBe(1);
    });
    const codes = await Promise.all(flood);
    expect(codes.filter((code) => code === 'overloaded').length).toBeGreaterThan(200);
    expect(codes.filter((code) => code === 'allowed').length).toBeGreaterThanOrEqual(
      peopleLimits.attemptsWaitingMax,
    );
    expect(await own).toBe('allowed');
  });

  it('fails where PostgreSQL does, and goes on when it is back', async () => {
    const faulty = faultySql();
    const attempts = attemptsAt(faulty.wrap(database.sql));
    const allowed = await attempts.begin(stranger('ada@example.com'));
    faulty.fault = codedError('PostgresError', 'CONNECTION_CLOSED');
    await expect(attempts.begin(stranger('bob@example.com'))).rejects.toBe(faulty.fault);
    // A login that has succeeded is one.
    await allowed.forgive();
    faulty.fault = null;
    expect(await codeOf(attempts.begin(stranger('bob@example.com')))).toBe('allowed');
  });
});

describe('the counts that are kept', () => {
  const rows = async (): Promise<number> => {
    const [row] = await database.sql<[{ rows: number }]>`
      SELECT count(*)::integer AS rows FROM login_attempts`;
    return row.rows;
  };

  it('end with their window', async () => {
    const attempts = attemptsAt();
    await Promise.all(times(50, (index) => attempts.begin(stranger(null, `10.2.0.${index}`))));
    expect(await rows()).toBe(50);
    aheadMs += peopleLimits.attemptWindowMs;
    await Promise.all(times(25, (index) => attempts.begin(stranger(null, `10.2.1.${index}`))));
    await until(async () => (await rows()) === 25, { what: 'counts that are over to go' });
  });

  it('have a bound, beyond which the oldest are forgotten', async () => {
    await database.sql`
      INSERT INTO login_attempts (key, attempts, ends_at_ms)
      SELECT 'of another time ' || n, 10, ${clock.now() + minuteMs}::bigint + n % 1000
      FROM generate_series(1, ${peopleLimits.attemptRowsMax}) AS n`;
    const attempts = attemptsAt();
    for (let batch = 0; batch < 5; batch++) {
      await Promise.all(times(200, (index) => attempts.begin(stranger(null, `10.3.${batch}.${index}`))));
    }
    await until(async () => (await rows()) === peopleLimits.attemptRowsMax, { what: 'the oldest to go' });
    const [own] = await database.sql<[{ rows: number }]>`
      SELECT count(*)::integer AS rows FROM login_attempts WHERE key NOT LIKE 'of another time%'`;
    expect(own.rows).toBe(1_000);
  });
});
