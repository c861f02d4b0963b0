import { describe, expect, it } from 'vitest';
import { quotaLimits } from '../../control-plane/book/limits.ts';
import { freeUnits } from '../../control-plane/book/post.ts';
import { takeUnits, type WindowAsk } from '../../control-plane/book/take-units.ts';
import { limits } from '../../shared/model/limits.ts';
import { dayMs, hourMs, minuteMs, parseTime, type UnixMillis } from '../../shared/model/time.ts';
import type { CounterKey } from '../../shared/quota/counter.ts';
import { type QuotaWindow, windowAt } from '../../shared/quota/window.ts';
import { useDatabase, usePool } from '../support/database/use-database.ts';

const database = useDatabase();
const other = usePool(database, 8);

let counters = 0;
const newCounter = () => `gate_rate:test_${++counters}` as CounterKey;
const nowMs = parseTime('2096-02-29T23:59:30Z') as UnixMillis;
const later = (durationMs: number) => (nowMs + durationMs) as UnixMillis;

/** All of `units` or nothing, of the minute unless said otherwise. */
const exactly = (
  units: number,
  ask: Pick<WindowAsk, 'counter' | 'limit'> & Partial<WindowAsk>,
): WindowAsk => ({
  window: 'minute',
  unitsMin: units,
  unitsMax: units,
  ...ask,
});

const grant = (...asks: WindowAsk[][]) => takeUnits(database.sql, asks, nowMs);
async function leased(
  counter: CounterKey,
  window: QuotaWindow = windowAt('minute', nowMs),
): Promise<number | null> {
  const [row] = await database.sql<{ leased: number }[]>`
    SELECT leased FROM quota_windows
    WHERE counter = ${counter} AND window_name = ${window.name} AND starts_at_ms = ${window.startsAtMs}`;
  return row?.leased ?? null;
}

describe('takeUnits', () => {
  it('starts over with each window, and leaves the counter’s other windows alone', async () => {
    const counter = newCounter();
    const ask = (['minute', 'hour', 'day', 'month'] as const).map((window) =>
      exactly(1, { counter, window, limit: 2 }),
    );
    const used = async (atMs: UnixMillis) =>
      (await takeUnits(database.sql, [ask], atMs))[0]?.windows.map((each) => each.leased);
    expect(await used(nowMs)).toEqual([1, 1, 1, 1]);
    expect(await used(later(29_999))).toEqual([2, 2, 2, 2]);
    // 1 March: minute, hour, day and month begin in the same millisecond.
    expect(await used(later(30_000))).toEqual([1, 1, 1, 1]);
    expect(await used(later(30_000 + minuteMs))).toEqual([1, 2, 2, 2]);
    // A clock that was set back finds what it had counted.
    expect(await used(nowMs)).toEqual([2, 2, 2, 2]);
  });

  it.each([
    ['the same window twice', [exactly(1, { counter: newCounter(), limit: 1 })].flatMap((one) => [one, one])],
    ['half a unit', [exactly(0.5, { counter: newCounter(), limit: 1 })]],
    ['fewer than no units', [exactly(-1, { counter: newCounter(), limit: 1 })]],
    ['a least above the most', [{ ...exactly(1, { counter: newCounter(), limit: 9 }), unitsMin: 2 }]],
    ['a limit that is no number', [exactly(1, { counter: newCounter(), limit: Number.NaN })]],
    [
      'more windows than a call may name',
      Array.from({ length: limits.quotaWindowsPerCallMax + 1 }, () =>
        exactly(1, { counter: newCounter(), limit: 1 }),
      ),
    ],
  ])('throws for %s, before it asks the database', async (_what, ask) => {
    await expect(grant(ask)).rejects.toThrow(expect.objectContaining({ name: 'InvariantError' }));
    expect(await leased(ask[0]?.counter as CounterKey)).toBeNull();
  });
});

describe('takeUnits, many at once', () => {
  const pools = () => [database.sql, other];
  const poolOf = (index: number) => pools()[index % 2] ?? database.sql;

  it('never deadlocks, in any order of windows, existing or not', async () => {
    const names = Array.from({ length: 12 }, newCounter);
    const takers = Array.from({ length: 100 }, (_, index) => {
      const turned = [...names.slice(index % 12), ...names.slice(0, index % 12)];
      const ask = (index % 2 === 0 ? turned : turned.reverse())
        .slice(0, 8)
        .map((counter) => exactly(1, { counter, limit: 40 }));
      const work = (sql: Parameters<typeof takeUnits>[0]) =>
        takeUnits(sql, [ask.slice(0, 4), ask.slice(4)], nowMs);
      return index % 3 === 0 ? poolOf(index).begin((tx) => work(tx)) : work(poolOf(index));
    });
    const sums = new Map<string, number>();
    for (const [index, answers] of (await Promise.all(takers)).entries()) {
      const turned = [...names.slice(index % 12), ...names.slice(0, index % 12)];
      const asked = (index % 2 === 0 ? turned : turned.reverse()).slice(0, 8);
      answers
        .flatMap(({ windows }) => windows)
        .forEach(({ granted }, place) => {
          const name = asked[place] ?? '';
          sums.set(name, (sums.get(name) ?? 0) + granted);
        });
    }
    for (const counter of names) {
      expect(sums.get(counter)).toBeLessThanOrEqual(40);
      expect(await leased(counter)).toBe(sums.get(counter));
    }
  });

  it('makes new windows in one order too', async () => {
    // A statement that makes 20 rows is over before another one meets it, unless each row takes a while.
    await database.sql.unsafe(`
      CREATE FUNCTION wait_a_little() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_sleep(0.002); RETURN NEW; END $$;
      CREATE TRIGGER slow_rows BEFORE INSERT ON quota_windows FOR EACH ROW EXECUTE FUNCTION wait_a_little()`);
    const names = Array.from({ length: 20 }, newCounter);
    const takers = Array.from({ length: 8 }, (_, index) => {
      const inTurn = index % 2 === 0 ? names : [...names].reverse();
      return takeUnits(poolOf(index), [inTurn.map((counter) => exactly(1, { counter, limit: 100 }))], nowMs);
    });
    const answers = await Promise.all(takers).finally(
      () => database.sql`DROP TRIGGER slow_rows ON quota_windows`,
    );
    expect(answers.flat().every(({ isGranted }) => isGranted)).toBe(true);
  });

  it('gives units back in one order too', async () => {
    const names = Array.from({ length: limits.quotaWindowsPerCallMax }, newCounter);
    const inTurn = (index: number) => (index % 2 === 0 ? names : [...names].reverse());
    await grant(names.map((counter) => exactly(20, { counter, limit: 20 })));
    await Promise.all(
      Array.from({ length: 16 }, (_, index) =>
        freeUnits(
          poolOf(index),
          inTurn(index).map((counter) => ({ counter, ...minute, units: 1 })),
          nowMs,
        ),
      ),
    );
    expect(new Set(await Promise.all(names.map((counter) => leased(counter))))).toEqual(new Set([4]));
  });
});

/** As what holds units names their window. */
const minute = { window: 'minute', startsAtMs: windowAt('minute', nowMs).startsAtMs } as const;

describe('freeUnits', () => {
  const window = windowAt('minute', nowMs);

  it('takes a window no lower than zero, and makes none that is not there', async () => {
    const [counter, unknown] = [newCounter(), newCounter()];
    await grant([exactly(3, { counter, limit: 10 })]);
    await freeUnits(
      database.sql,
      [
        { counter, ...minute, units: 5 },
        { counter: unknown, ...minute, units: 1 },
      ],
      nowMs,
    );
    expect(await leased(counter)).toBe(0);
    expect(await leased(unknown)).toBeNull();
    await freeUnits(database.sql, [], nowMs);
  });

  it('comes too late from the end of the window on, and then changes nothing', async () => {
    const counter = newCounter();
    await grant([exactly(3, { counter, limit: 10 })]);
    const give = (atMs: number) =>
      freeUnits(database.sql, [{ counter, ...minute, units: 1 }], atMs as UnixMillis);
    await give(window.endsAtMs);
    expect(await leased(counter)).toBe(3);
    await give(window.endsAtMs - 1);
    expect(await leased(counter)).toBe(2);
  });

  it('adds up the freed units of one window, and throws for a negative number', async () => {
    const counter = newCounter();
    await grant([exactly(10, { counter, limit: 10 })]);
    const twice = [1, 2].map((units) => ({ counter, ...minute, units }));
    await freeUnits(database.sql, twice, nowMs);
    expect(await leased(counter)).toBe(7);
    await expect(freeUnits(database.sql, [{ counter, ...minute, units: -1 }], nowMs)).rejects.toThrow(
      'whole number',
    );
  });
});

describe('windows that ended', () => {
  const systemNowMs = () => Date.now() as UnixMillis;
  const insert = async (counter: CounterKey, endedAgoMs: number, count = 1): Promise<void> => {
    const endsAtMs = systemNowMs() - endedAgoMs;
    await database.sql`
      INSERT INTO quota_windows (counter, window_name, starts_at_ms, ends_at_ms, leased)
      SELECT ${counter}, 'minute', ${endsAtMs - minuteMs}::bigint - n, ${endsAtMs}::bigint - n, 1 FROM generate_series(1, ${count}) AS n`;
  };
  const count = async (counter: CounterKey): Promise<number> => {
    const rows = await database.sql`SELECT 1 FROM quota_windows WHERE counter = ${counter}`;
    return rows.length;
  };
  const open = (atMs: UnixMillis) =>
    takeUnits(database.sql, [[exactly(1, { counter: newCounter(), limit: 1 })]], atMs);

  it('go when new ones come, a bounded number at a time, and only long after their end', async () => {
    const [old, recent] = [newCounter(), newCounter()];
    await insert(old, quotaLimits.quotaWindowKeptMs + minuteMs, quotaLimits.quotaWindowsPerTrimMax + 5);
    await insert(recent, quotaLimits.quotaWindowKeptMs - minuteMs);
    await open(systemNowMs());
    expect(await count(old)).toBe(5);
    await open(systemNowMs());
    expect(await count(old)).toBe(0);
    expect(await count(recent)).toBe(1);
  });

  it('stay when only one of the two clocks says that they ended', async () => {
    const [old, recent] = [newCounter(), newCounter()];
    await insert(old, quotaLimits.quotaWindowKeptMs + minuteMs);
    await open((systemNowMs() - hourMs / 2) as UnixMillis);
    expect(await count(old)).toBe(1);
    await insert(recent, minuteMs);
    await open((systemNowMs() + dayMs) as UnixMillis);
    expect(await count(recent)).toBe(1);
  });

  it('are not recreated: a clock that is far behind is refused', async () => {
    const counter = newCounter();
    const ask = [[exactly(1, { counter, limit: 5 })]];
    const behindMs = (systemNowMs() - quotaLimits.quotaWindowKeptMs - 2 * minuteMs) as UnixMillis;
    await expect(takeUnits(database.sql, ask, behindMs)).rejects.toThrow('too far behind');
    expect(await count(counter)).toBe(0);
  });
});
