import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Api, startApi } from '../support/api.ts';
import { runs } from '../support/runs.ts';

/** Discovery against a slow oracle, and its counts against a recount, whatever is published, changed and deleted before. */
let api: Api;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.close());

const areas = ['orders', 'data'];
const categories = [null, 'orders', 'commerce', 'data'];
const currencies = ['USD', 'EUR'];
const models = ['per_call', 'per_minute', 'subscription'];
const levels = ['L1', 'L2', 'L3'];

const pricing = fc.record({
  model: fc.constantFrom(...models),
  price_cents: fc.integer({ min: 0, max: 4 }),
  currency: fc.constantFrom(...currencies),
});
const sla = fc.record({
  uptime_basis_points: fc.integer({ min: 9_996, max: 10_000 }),
  response_time_ms: fc.integer({ min: 0, max: 4 }),
});
const entry = fc.record({
  key: fc.tuple(fc.constantFrom(...areas), fc.constantFrom('a', 'b', 'c')).map((parts) => parts.join(':')),
  category: fc.constantFrom(...categories),
  pricing: fc.option(pricing),
  sla: fc.option(sla),
});
const entries = fc.uniqueArray(entry, { selector: ({ key }) => key, maxLength: 6 });
type Entry = {
  readonly [K in 'key' | 'category' | 'pricing' | 'sla']: (typeof entry extends fc.Arbitrary<infer E>
    ? E
    : never)[K];
};

const step = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      what: fc.constant('create' as const),
      entries,
      level: fc.constantFrom(...levels),
    }),
  },
  { weight: 2, arbitrary: fc.record({ what: fc.constant('publish' as const), entries, which: fc.nat() }) },
  {
    weight: 2,
    arbitrary: fc.record({
      what: fc.constant('level' as const),
      level: fc.constantFrom(...levels),
      which: fc.nat(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ what: fc.constant('delete' as const), which: fc.nat() }) },
);
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

const query = fc.record(
  {
    capability: fc.constantFrom(...areas, 'commerce', 'orders:a', 'data:b', 'nothing'),
    currency: fc.constantFrom(...currencies),
    max_price_cents: fc.integer({ min: 0, max: 4 }),
    pricing_model: fc.constantFrom(...models),
    min_uptime_bp: fc.integer({ min: 9_996, max: 10_000 }),
    max_response_time_ms: fc.integer({ min: 0, max: 4 }),
    min_security_profile: fc.constantFrom(...levels),
    sort: fc.constantFrom('price_asc', 'price_desc', 'uptime_desc', 'response_asc'),
    limit: fc.integer({ min: 1, max: 8 }),
    offset: fc.integer({ min: 0, max: 8 }),
  },
  { requiredKeys: ['capability'] },
);
type Query = typeof query extends fc.Arbitrary<infer Q> ? Q : never;

interface KnownGate {
  readonly id: string;
  level: string;
  entries: readonly Entry[];
}

/** The gates that are there; the same list holds what the oracle searches. */
let gates: KnownGate[] = [];

async function play(move: Step): Promise<void> {
  if (move.what === 'create') {
    const { gate_id } = await api.createGate({
      trust_level: move.level,
      catalog: { permissions: move.entries },
    });
    gates.push({ id: gate_id, level: move.level, entries: move.entries });
    return;
  }
  const gate = gates[move.which % Math.max(gates.length, 1)];
  if (gate === undefined) return;
  const url = `/v1/gates/${gate.id}`;
  if (move.what === 'publish') {
    const reply = await api.call({ url: `${url}/catalog`, body: { permissions: move.entries } });
    expect(reply.status).toBe(201);
    gate.entries = move.entries;
  } else if (move.what === 'level') {
    expect((await api.call({ method: 'PUT', url, body: { trust_level: move.level } })).status).toBe(200);
    gate.level = move.level;
  } else {
    expect((await api.call({ method: 'DELETE', url })).status).toBe(200);
    gates = gates.filter((each) => each !== gate);
  }
}

interface Candidate {
  readonly gate: KnownGate;
  readonly entry: Entry;
}

function passes(
  { gate, entry: { key, category, pricing: price, sla: promise } }: Candidate,
  asked: Query,
): boolean {
  if (![key, key.split(':')[0], category].includes(asked.capability)) return false;
  const needsPrice = asked.max_price_cents !== undefined || asked.pricing_model !== undefined;
  if (price === null && needsPrice) return false;
  if (price !== null) {
    if (price.currency !== (asked.currency ?? 'USD')) return false;
    if (asked.max_price_cents !== undefined && price.price_cents > asked.max_price_cents) return false;
    if (asked.pricing_model !== undefined && price.model !== asked.pricing_model) return false;
  }
  const needsSla = asked.min_uptime_bp !== undefined || asked.max_response_time_ms !== undefined;
  if (promise === null && needsSla) return false;
  if (promise !== null) {
    if (promise.uptime_basis_points < (asked.min_uptime_bp ?? 0)) return false;
    if (promise.response_time_ms > (asked.max_response_time_ms ?? 1e9)) return false;
  }
  return gate.level >= (asked.min_security_profile ?? 'L1');
}

/** Smaller comes first; what has no value comes last. */
function rank({ entry: { pricing: price, sla: promise } }: Candidate, sort: string): number {
  const figures: Readonly<Record<string, number | undefined>> = {
    price_asc: price?.price_cents,
    price_desc: price && -price.price_cents,
    uptime_desc: promise && -promise.uptime_basis_points,
    response_asc: promise?.response_time_ms,
  } as Record<string, number | undefined>;
  return figures[sort] ?? Number.POSITIVE_INFINITY;
}

function oracle(asked: Query) {
  const all = gates
    .flatMap((gate) => gate.entries.map((each) => ({ gate, entry: each })))
    .filter((each) => passes(each, asked));
  const sort = asked.sort ?? 'price_asc';
  const name = ({ gate, entry: { key } }: Candidate) => `${gate.id} ${key}`;
  all.sort((a, b) => rank(a, sort) - rank(b, sort) || (name(a) < name(b) ? -1 : 1));
  const offset = asked.offset ?? 0;
  return { names: all.slice(offset, offset + (asked.limit ?? 50)).map(name), total: all.length };
}

async function discover(asked: Query) {
  const text = Object.entries(asked).map(([name, value]): [string, string] => [name, String(value)]);
  const { status, body } = await api.call({
    url: `/v1/discover?${new URLSearchParams(text)}`,
    key: null,
  });
  expect(status).toBe(200);
  const names = body.results.map(
    (each: Record<string, string>) => `${each['gate_id']} ${each['permission_key']}`,
  );
  return { names, total: body.total };
}

async function expectCountsToHold(): Promise<void> {
  const { sql } = api.deps;
  const wrong = await sql`
    WITH terms AS (
      SELECT unnest(ARRAY[permission_key, area, category]) AS term, coalesce(currency, '') AS currency,
        coalesce(pricing_model, '') AS pricing_model, trust_level
      FROM discovery_entries
    ), recount AS (
      SELECT term, currency, pricing_model, trust_level, count(*) AS entries FROM terms
      WHERE term IS NOT NULL GROUP BY 1, 2, 3, 4
    )
    SELECT * FROM recount FULL JOIN (SELECT * FROM discovery_counts WHERE entries > 0) AS kept
      USING (term, currency, pricing_model, trust_level)
    WHERE recount.entries IS DISTINCT FROM kept.entries`;
  expect(wrong).toEqual([]);
}

it('finds what a slow search finds, in its order, and counts it', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 1, maxLength: 8 }),
      fc.array(query, { minLength: 12, maxLength: 12 }),
      async (moves, queries) => {
        for (const move of moves) await play(move);
        for (const asked of queries) expect(await discover(asked)).toEqual(oracle(asked));
        await expectCountsToHold();
      },
    ),
    // The gates pile up from run to run, so that a shrunk example alone would not fail again.
    { numRuns: runs(12), endOnFailure: true },
  );
});
