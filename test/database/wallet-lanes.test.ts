import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Database, Transaction } from '../../control-plane/base/database.ts';
import { freeUnits } from '../../control-plane/book/post.ts';
import { type GroupGrant, takeUnits } from '../../control-plane/book/take-units.ts';
import { parseTime, type UnixMillis } from '../../shared/model/time.ts';
import type { CounterKey } from '../../shared/quota/counter.ts';
import { windowAt } from '../../shared/quota/window.ts';
import { runs } from '../support/base/runs.ts';
import { until } from '../support/base/until.ts';
import { waitingForLocks } from '../support/database/postgres.ts';
import { useDatabase, usePool } from '../support/database/use-database.ts';

const database = useDatabase();
const other = usePool(database, 4);

const nowMs = parseTime('2096-02-29T12:00:00Z') as UnixMillis;
const { startsAtMs } = windowAt('day', nowMs);
let wallets = 0;
const newWallet = () => `wallet_spend:w${++wallets}`;

interface Lane {
  readonly wallet: string;
  readonly lane: string;
  readonly limit: number;
  readonly baseLimit: number;
  readonly units: number;
}
const counterOf = ({ wallet, lane }: Pick<Lane, 'wallet' | 'lane'>) => `${wallet}:${lane}` as CounterKey;

const take = async (sql: Database | Transaction, lanes: readonly Lane[]): Promise<GroupGrant> => {
  const group = lanes.map(({ limit, baseLimit, units, ...lane }) => ({
    counter: counterOf(lane),
    window: 'day' as const,
    ...{ limit, baseLimit, unitsMin: units, unitsMax: units },
  }));
  const [grant] = await takeUnits(sql, [group], nowMs);
  return grant as GroupGrant;
};

async function leasedOf(wallet: string): Promise<Readonly<Record<string, number>>> {
  const rows = await database.sql<{ counter: string; leased: number }[]>`
    SELECT counter, leased FROM quota_windows WHERE counter = ${wallet} OR counter LIKE ${`${wallet}:%`}`;
  return Object.fromEntries(rows.map(({ counter, leased }) => [counter.slice(wallet.length), leased]));
}

describe('lanes of a wallet', () => {
  it('count in its base what a transaction took that another waited for', async () => {
    const wallet = newWallet();
    const lane = { wallet, limit: 10, baseLimit: 10 };
    await take(database.sql, [{ ...lane, lane: 'pot', units: 1 }]);
    await take(database.sql, [{ ...lane, lane: 'child', units: 1 }]);
    let waited: Promise<GroupGrant> | undefined;
    await database.sql.begin(async (tx) => {
      await take(tx, [{ ...lane, lane: 'pot', units: 2 }]);
      waited = take(other, [
        { ...lane, lane: 'child', units: 3 },
        { ...lane, lane: 'pot', units: 1 },
      ]);
      await until(async () => (await waitingForLocks(database.sql)) === 1, { what: 'a call that waits' });
    });
    expect((await waited)?.isGranted).toBe(true);
    expect(await leasedOf(wallet)).toEqual({ '': 8, ':pot': 4, ':child': 4 });
    expect((await take(other, [{ ...lane, lane: 'pot', units: 3 }])).isGranted).toBe(false);
    expect((await take(other, [{ ...lane, lane: 'pot', units: 2 }])).isGranted).toBe(true);
  });

  it('never pass it or their own limits, whoever takes and gives back at once', async () => {
    const laneLimits = { pot: 12, a: 9, b: 6 } as const;
    const baseLimit = 15;
    const move = fc.record({
      lane: fc.constantFrom('pot' as const, 'a' as const, 'b' as const),
      parent: fc.constantFrom('pot' as const, 'a' as const),
      units: fc.nat({ max: 6 }),
      isBack: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(move, { minLength: 1, maxLength: 6 }), { maxLength: 5 }),
        async (rounds) => {
          const [wallet, root] = [newWallet(), newWallet()];
          const taken: { readonly counter: CounterKey; readonly units: number }[][] = [];
          for (const round of rounds) {
            await Promise.all(
              round.map(async ({ lane, parent, units, isBack }) => {
                const lanes = [
                  { wallet, lane, limit: laneLimits[lane], baseLimit, units },
                  { wallet: root, lane: parent, limit: laneLimits[parent], baseLimit: 14, units },
                ];
                const back = isBack ? taken.pop() : undefined;
                if (back === undefined) {
                  if ((await take(other, lanes)).isGranted)
                    taken.push(lanes.map((each) => ({ counter: counterOf(each), units })));
                  return;
                }
                const held = back.map((each) => ({ ...each, window: 'day' as const, startsAtMs }));
                await other.begin((tx) => freeUnits(tx, held, nowMs));
              }),
            );
            for (const [name, limit] of [
              [wallet, baseLimit],
              [root, 14],
            ] as const) {
              const { '': base = 0, ...lanes } = await leasedOf(name);
              const sums = new Map<string, number>();
              for (const { counter, units } of taken.flat())
                sums.set(counter, (sums.get(counter) ?? 0) + units);
              for (const [lane, leased] of Object.entries(lanes)) {
                expect(leased).toBe(sums.get(`${name}${lane}`) ?? 0);
                expect(leased).toBeLessThanOrEqual(laneLimits[lane.slice(1) as keyof typeof laneLimits]);
              }
              expect(base).toBe(Object.values(lanes).reduce((sum, leased) => sum + leased, 0));
              expect(base).toBeLessThanOrEqual(limit);
            }
          }
        },
      ),
      { numRuns: runs({ short: 25, long: 1_000 }) },
    );
  });
});
