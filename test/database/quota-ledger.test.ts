import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { freeUnits } from '../../control-plane/book/post.ts';
import { type AskGroup, type GroupGrant, takeUnits } from '../../control-plane/book/take-units.ts';
import { hourMs, minuteMs, parseTime, type UnixMillis } from '../../shared/model/time.ts';
import type { CounterKey } from '../../shared/quota/counter.ts';
import { type QuotaWindow, windowAt, windowNames } from '../../shared/quota/window.ts';
import { runs } from '../support/base/runs.ts';
import { useDatabase, usePool } from '../support/database/use-database.ts';

const database = useDatabase();
const other = usePool(database, 4);

/** Two minutes before a year, and with it every kind of window, ends. */
const startMs = parseTime('2096-12-31T23:58:00Z') as UnixMillis;

const windowAsk = fc
  .record({
    counter: fc.constantFrom('a', 'b', 'c').map((name) => name as CounterKey),
    window: fc.constantFrom(...windowNames),
    limit: fc.nat({ max: 12 }),
    unitsMin: fc.nat({ max: 4 }),
    more: fc.nat({ max: 6 }),
  })
  .map(({ more, ...ask }) => ({ ...ask, unitsMax: ask.unitsMin + more }));

/** One call: several asks, each window in one of them at most. */
const asks = fc
  .uniqueArray(fc.tuple(windowAsk, fc.nat({ max: 2 })), {
    selector: ([{ counter, window }]) => `${counter} ${window}`,
    minLength: 1,
    maxLength: 6,
  })
  .map((pairs) => [0, 1, 2].map((place) => pairs.filter(([, at]) => at === place).map(([ask]) => ask)));

const command = fc.oneof(
  { weight: 5, arbitrary: asks.map((wanted) => ({ kind: 'grant' as const, asks: wanted })) },
  {
    weight: 2,
    arbitrary: fc
      .record({ nth: fc.nat({ max: 30 }), units: fc.nat({ max: 8 }) })
      .map((given) => ({ kind: 'give back' as const, ...given })),
  },
  {
    weight: 1,
    arbitrary: fc
      .constantFrom(1, 20_000, minuteMs, hourMs)
      .map((durationMs) => ({ kind: 'wait' as const, durationMs })),
  },
);

let round = 0;
const inRound = (wanted: readonly AskGroup[]): AskGroup[] =>
  wanted.map((ask) => ask.map((one) => ({ ...one, counter: `${round}:${one.counter}` as CounterKey })));

const nameOf = (counter: string, window: QuotaWindow) => `${counter} ${window.name} ${window.startsAtMs}`;

async function rows(): Promise<Map<string, number>> {
  const found = await database.sql<
    { counter: string; name: QuotaWindow['name']; start: UnixMillis; leased: number }[]
  >`
    SELECT counter, window_name AS name, starts_at_ms AS start, leased FROM quota_windows
    WHERE counter LIKE ${`${round}:%`}`;
  return new Map(
    found.map(({ counter, name, start, leased }) => [nameOf(counter, windowAt(name, start)), leased]),
  );
}

/** As what holds units names their window. */
const named = ({ name, startsAtMs }: QuotaWindow) => ({ window: name, startsAtMs });

describe('the quota ledger', () => {
  it('behaves like a sequential model', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(command, { minLength: 1, maxLength: 15 }), async (commands) => {
        round++;
        let nowMs = startMs;
        const model = new Map<string, number>();
        const given: { counter: CounterKey; window: QuotaWindow }[] = [];
        for (const step of commands) {
          if (step.kind === 'wait') nowMs = (nowMs + step.durationMs) as UnixMillis;
          if (step.kind === 'grant') {
            const wanted = inRound(step.asks);
            expect(await takeUnits(database.sql, wanted, nowMs)).toEqual(grantInModel(model, wanted, nowMs));
            for (const { counter, window } of wanted.flat())
              given.push({ counter, window: windowAt(window, nowMs) });
          }
          if (step.kind === 'give back' && given.length > 0) {
            const { counter, window } = given[step.nth % given.length] as (typeof given)[number];
            await freeUnits(database.sql, [{ counter, ...named(window), units: step.units }], nowMs);
            const name = nameOf(counter, window);
            if (nowMs < window.endsAtMs) model.set(name, Math.max((model.get(name) ?? 0) - step.units, 0));
          }
          expect(await rows()).toEqual(model);
        }
      }),
      { numRuns: runs({ short: 25, long: 6_000 }) },
    );
  });

  it('grants no more than the limit, and accounts for every unit, under concurrent requests and returns', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(asks, { minLength: 6, maxLength: 20 }),
        fc.nat({ max: 12 }),
        fc.infiniteStream(fc.nat({ max: 2 })),
        async (calls, limit, returned) => {
          round++;
          const held = new Map<string, number>();
          const work = calls.map(async (call, index) => {
            const sql = index % 2 === 0 ? database.sql : other;
            const wanted = inRound(call).map((ask) => ask.map((one) => ({ ...one, limit })));
            const grants = await takeUnits(sql, wanted, startMs);
            expectWhole(wanted, grants);
            for (const [place, one] of wanted.flat().entries()) {
              const grant = grants.flatMap(({ windows }) => windows)[place];
              if (grant === undefined || grant.granted === 0) continue;
              const units = Math.min(grant.granted, returned.next().value ?? 0);
              await freeUnits(sql, [{ counter: one.counter, ...named(grant.window), units }], startMs);
              const name = nameOf(one.counter, grant.window);
              held.set(name, (held.get(name) ?? 0) + grant.granted - units);
            }
          });
          await Promise.all(work);
          for (const [name, leased] of await rows()) {
            expect(leased).toBe(held.get(name) ?? 0);
            expect(leased).toBeLessThanOrEqual(limit);
          }
        },
      ),
      { numRuns: runs({ short: 15, long: 4_000 }) },
    );
  });
});

/** One ask after the other, by counting. */
function grantInModel(
  model: Map<string, number>,
  wanted: readonly AskGroup[],
  nowMs: UnixMillis,
): GroupGrant[] {
  return wanted.map((ask) => {
    const windows = ask.map((one) => {
      const window = windowAt(one.window, nowMs);
      const name = nameOf(one.counter, window);
      const leased = model.get(name) ?? 0;
      const left = Math.max(one.limit - leased, 0);
      return { name, window, leased, offer: Math.min(one.unitsMax, left), isEnough: left >= one.unitsMin };
    });
    const isGranted = windows.every(({ isEnough }) => isEnough);
    return {
      isGranted,
      windows: windows.map(({ name, window, leased, offer }) => {
        const granted = isGranted ? offer : 0;
        model.set(name, leased + granted);
        return { window, granted, leased: leased + granted };
      }),
    };
  });
}

/** Each ask is granted in all its windows, between least and most, or in none. */
function expectWhole(wanted: readonly AskGroup[], grants: readonly GroupGrant[]): void {
  for (const [index, { isGranted, windows }] of grants.entries()) {
    for (const [place, { granted }] of windows.entries()) {
      const least = wanted[index]?.[place]?.unitsMin ?? Number.NaN;
      const most = wanted[index]?.[place]?.unitsMax ?? Number.NaN;
      expect(isGranted ? granted >= least && granted <= most : granted === 0).toBe(true);
    }
  }
}
