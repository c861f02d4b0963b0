import { afterAll, beforeAll, expect, it } from 'vitest';
import { type DistantDatabase, distantDatabase } from '../support/distant-database.ts';
import { call } from '../support/http-client.ts';
import { type Installation, installation, type Running } from '../support/installation.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import { bundledPrograms } from '../support/programs.ts';
import { until } from '../support/until.ts';

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

/** Clients that ask again as soon as they are answered, each time with a new key. */
async function askWithKeys({ all, sidecar }: Far, forMs: number): Promise<Counted> {
  const gateId = await all.createGate({
    constraints: {
      rate_limits: { requests_per_day: 1_000_000 },
      spend_limits: { daily_usd: 1_000_000 },
    },
  });
  const tokens = await Promise.all(Array.from({ length: 24 }, async () => (await all.issuePassport()).token));
  let asked = 0;
  const ask = (token: string | undefined) =>
    call(`${sidecar.origin}/v1/gates/${gateId}/check`, {
      method: 'POST',
      key: all.adminKey,
      body: {
        passport: token,
        request: { permission_key: 'orders:create', amount: 1, idempotency_key: `key-${++asked}` },
      },
    });
  const isKnown = async () => (await ask(tokens[0])).status === 200;
  await until(isKnown, { what: 'the gate at the sidecar' });
  const counted: Counted = { permits: 0, refused: 0, others: 0 };
  const endsAtMs = performance.now() + forMs;
  await Promise.all(
    Array.from({ length: clients }, async (_, client) => {
      while (performance.now() < endsAtMs) {
        const { status, body } = await ask(tokens[client % tokens.length]);
        if (status === 503) counted.refused += 1;
        else if (body.decision === 'PERMIT') counted.permits += 1;
        else counted.others += 1;
      }
    }),
  );
  return counted;
}

it('slows keyed PERMITs down with its distance, and does not stop them', async () => {
  const counts = await Promise.all(places.map((place) => askWithKeys(place, 8_000)));
  const told = JSON.stringify(counts);
  const [near, far] = counts;
  // Twice as far is about half as much. Before calls took fewer journeys it was a tenth.
  expect(far?.permits, told).toBeGreaterThan((near?.permits ?? 0) / 4);
}, 120_000);
