import { afterAll, beforeAll, expect, it } from 'vitest';
import { call } from '../support/base/http-client.ts';
import { until } from '../support/base/until.ts';
import { type DistantDatabase, distantDatabase } from '../support/database/distant-database.ts';
import { type TestDatabase, testDatabase } from '../support/database/postgres.ts';
import { type Installation, installation, type Running } from '../support/programs/installation.ts';
import { bundledPrograms } from '../support/programs/programs.ts';

/** A control plane and a sidecar, as processes, whose database is so far away. */
interface Far {
  readonly roundTripMs: number;
  readonly all: Installation;
  readonly sidecar: Running;
  readonly database: TestDatabase;
  readonly distant: DistantDatabase;
}

const distances = [10, 20] as const;
const clients = 50;
let places: readonly Far[] = [];

beforeAll(async () => {
  const programs = await bundledPrograms();
  const start = async (roundTripMs: number): Promise<Far> => {
    const database = await testDatabase();
    const distant = await distantDatabase(database.url, { eachWayMs: roundTripMs / 2 });
    const all = await installation(programs, { databaseUrl: distant.url });
    await all.startControlPlane();
    return { roundTripMs, all, database, distant, sidecar: await all.startSidecar() };
  };
  places = await Promise.all(distances.map(start));
});
afterAll(async () => {
  await Promise.all(
    places.map(async ({ all, distant, database }) => {
      await all.close();
      await distant.close();
      await database.drop();
    }),
  );
});

interface Counted {
  permits: number;
  refused: number;
  others: number;
}

const nothing = { permits: 0, refused: 0, others: 0 };
const sumOf = (all: readonly Counted[]): Counted =>
  all.reduce(
    (one, other) => ({
      permits: one.permits + other.permits,
      refused: one.refused + other.refused,
      others: one.others + other.others,
    }),
    nothing,
  );

/** Asks at one gate, each time with a new key and the next of many passports, and counts the answers. */
async function asker({ all, sidecar }: Far) {
  const gateId = await all.createGate({
    constraints: {
      rate_limits: { requests_per_day: 1_000_000 },
      spend_limits: { daily_usd: 1_000_000 },
    },
  });
  const tokens = await Promise.all(Array.from({ length: 24 }, async () => (await all.issuePassport()).token));
  let asked = 0;
  return async (counted: Counted): Promise<void> => {
    asked += 1;
    const { status, body } = await call(`${sidecar.origin}/v1/gates/${gateId}/check`, {
      method: 'POST',
      key: all.adminKey,
      body: {
        passport: tokens[asked % tokens.length],
        request: { permission_key: 'orders:create', amount: 1, idempotency_key: `key-${asked}` },
      },
    });
    if (status === 503) counted.refused += 1;
    else if (body.decision === 'PERMIT') counted.permits += 1;
    else counted.others += 1;
  };
}

type Ask = Awaited<ReturnType<typeof asker>>;

/** Clients that ask again as soon as they are answered. */
async function askInTurn(ask: Ask, forMs: number): Promise<Counted> {
  const counted = { ...nothing };
  const endsAtMs = performance.now() + forMs;
  await Promise.all(
    Array.from({ length: clients }, async () => {
      while (performance.now() < endsAtMs) await ask(counted);
    }),
  );
  return counted;
}

/** What a connection is asked for the first time is slow. Resolves once nobody is refused for a second. */
const untilAllAreAnswered = (ask: Ask) =>
  until(async () => (await askInTurn(ask, 1_000)).refused === 0, { what: 'a second without 503' });

const refusedShare = ({ permits, refused }: Counted): number => refused / Math.max(1, refused + permits);

const recordsOf = async ({ database }: Far): Promise<number> =>
  (await database.sql<{ count: number }[]>`SELECT count(*)::int AS count FROM records`)[0]?.count ?? 0;

it('slows keyed PERMITs down with its distance, and does not stop them', async () => {
  const asks = await Promise.all(places.map(asker));
  for (const ask of asks) await untilAllAreAnswered(ask);
  const recordsBefore = await Promise.all(places.map(recordsOf));
  // In turns, so that both have the same machine, however busy it is.
  const counts: Counted[][] = places.map(() => []);
  for (let round = 0; round < 3; round += 1)
    for (const [place, ask] of asks.entries()) counts[place]?.push(await askInTurn(ask, 1_500));
  const [near = nothing, far = nothing] = counts.map(sumOf);
  const told = JSON.stringify({ near, far, counts });
  // Twice as far is at worst half as much.
  expect(far.permits, told).toBeGreaterThan(near.permits / 2);
  // A machine that is too busy refuses from near by as well.
  expect(refusedShare(far), told).toBeLessThan(refusedShare(near) + 0.05);
  // Each PERMIT is one record; one that is voided is two, and answers nobody.
  const records = await Promise.all(places.map(recordsOf));
  const inVain = (records[1] ?? 0) - (recordsBefore[1] ?? 0) - far.permits;
  expect(inVain, told).toBeLessThan(far.permits / 10);
}, 300_000);
