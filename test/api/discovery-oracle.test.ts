import fc from 'fast-check';
import { beforeAll, expect, it } from 'vitest';
import { runs } from '../support/base/runs.ts';
import { startOwnApi } from '../support/service/api.ts';
import { useApi } from '../support/service/use-api.ts';

/**
 * Discovery against a slow oracle, and its counts against a recount, whatever is published, changed and
 * deleted before.
 */
const api = useApi(startOwnApi);
/** By whose gate it is. Those of the test world are never found, and another account can be suspended. */
let keys: Readonly<Record<Whose, string>>;
let otherId: string;
beforeAll(async () => {
  const other = await api.createAccount();
  const test = await api.createKey({ scopes: ['admin:*'], mode: 'test' });
  otherId = other.accountId;
  keys = { own: api.adminKey, other: other.key, test: test.key };
});

type Whose = 'own' | 'other' | 'test';
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
  // Often enough without, so that what comes last is on the pages that are looked at.
  pricing: fc.option(pricing, { freq: 2 }),
  sla: fc.option(sla, { freq: 2 }),
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
      whose: fc.constantFrom<Whose>('own', 'other', 'test'),
    }),
  },
  { weight: 2, arbitrary: fc.record({ what: fc.constant('suspend or resume' as const) }) },
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

/** The largest one is a number like any other. */
const figure = fc.oneof({ weight: 4, arbitrary: fc.nat(4) }, fc.constant(Number.MAX_SAFE_INTEGER));
const filters = {
  currency: fc.constantFrom(...currencies),
  max_price_cents: figure,
  pricing_model: fc.constantFrom(...models),
  min_uptime_bp: fc.integer({ min: 9_996, max: 10_000 }),
  max_response_time_ms: figure,
  min_security_profile: fc.constantFrom(...levels),
  sort: fc.constantFrom('price_asc', 'price_desc', 'uptime_desc', 'response_asc'),
  limit: fc.integer({ min: 1, max: 8 }),
  offset: fc.integer({ min: 0, max: 8 }),
};
/** A key, an area or a category, and nothing that is but a part of one. */
const capability = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(...areas, ...areas, 'commerce', 'orders:a', 'data:b', 'nothing') },
  fc.constantFrom('orders:', 'orders:*', ':a', 'a', 'orders:a ', '%'),
);
/** With few of the filters at once: all of them together find nothing. */
const query = fc
  .tuple(fc.record({ capability, ...filters }), fc.subarray(Object.keys(filters), { maxLength: 3 }))
  .map(([all, kept]): Partial<typeof all> & Pick<typeof all, 'capability'> => ({
    ...Object.fromEntries(Object.entries(all).filter(([name]) => kept.includes(name))),
    capability: all.capability,
  }));
type Query = typeof query extends fc.Arbitrary<infer Q> ? Q : never;

interface KnownGate {
  readonly id: string;
  readonly whose: Whose;
  level: string;
  entries: readonly Entry[];
}

/** The gates that are there; the same list holds what the oracle searches. */
let gates: KnownGate[] = [];
let isSuspended = false;
/** Nor can its account change it while it is suspended. */
const isHidden = ({ whose }: Pick<KnownGate, 'whose'>) => whose === 'other' && isSuspended;

async function play(move: Step): Promise<void> {
  if (move.what === 'suspend or resume') {
    isSuspended = !isSuspended;
    const body = { status: isSuspended ? 'suspended' : 'active' };
    const reply = await api.call({ method: 'PUT', url: `/v1/accounts/${otherId}`, body });
    expect(reply.status).toBe(200);
    return;
  }
  if (move.what === 'create') {
    if (isHidden(move)) return;
    const { whose, level, entries: permissions } = move;
    const body = { trust_level: level, catalog: { permissions } };
    const { gate_id } = await api.createGate(body, keys[whose]);
    gates.push({ id: gate_id, whose, level, entries: permissions });
    return;
  }
  const gate = gates[move.which % Math.max(gates.length, 1)];
  if (gate === undefined || isHidden(gate)) return;
  const url = `/v1/gates/${gate.id}`;
  const key = keys[gate.whose];
  if (move.what === 'publish') {
    const reply = await api.call({ url: `${url}/catalog`, body: { permissions: move.entries }, key });
    expect(reply.status).toBe(201);
    gate.entries = move.entries;
  } else if (move.what === 'level') {
    const body = { trust_level: move.level };
    expect((await api.call({ method: 'PUT', url, body, key })).status).toBe(200);
    gate.level = move.level;
  } else {
    expect((await api.call({ method: 'DELETE', url, key })).status).toBe(200);
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
    if (promise.response_time_ms > (asked.max_response_time_ms ?? Number.MAX_SAFE_INTEGER)) return false;
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
    .filter((gate) => gate.whose !== 'test' && !isHidden(gate))
    .flatMap((gate) => gate.entries.map((each) => ({ gate, entry: each })))
    .filter((each) => passes(each, asked));
  const sort = asked.sort ?? 'price_asc';
  const name = ({ gate, entry: { key } }: Candidate) => `${gate.id} ${key}`;
  all.sort((a, b) => rank(a, sort) - rank(b, sort) || (name(a) < name(b) ? -1 : 1));
  const offset = asked.offset ?? 0;
  return { names: all.slice(offset, offset + (asked.limit ?? 50)).map(name), total: all.length };
}

async function discover(asked: Query & { readonly cursor?: string }) {
  const text = Object.entries(asked).map(([name, value]): [string, string] => [name, String(value)]);
  const { status, body } = await api.call({ url: `/v1/discover?${new URLSearchParams(text)}`, key: null });
  expect(status).toBe(200);
  const { cursor: _, ...query } = asked;
  expect(body.query).toMatchObject(query);
  const names = body.results.map(
    (each: Record<string, string>) => `${each['gate_id']} ${each['permission_key']}`,
  );
  return { names, total: body.total, cursor: body.next_cursor };
}

/** All pages, each by the cursor of the one before. */
async function walk(asked: Query): Promise<readonly string[]> {
  const names: string[] = [];
  let cursor: string | null = '';
  while (cursor !== null) {
    const page = await discover(cursor === '' ? asked : { ...asked, cursor });
    names.push(...page.names);
    cursor = page.cursor;
  }
  return names;
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
  let found = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 4, maxLength: 8 }),
      fc.array(query, { minLength: 12, maxLength: 12 }),
      async (moves, queries) => {
        for (const move of moves) await play(move);
        for (const asked of queries) {
          const expected = oracle(asked);
          expect(await discover(asked)).toMatchObject(expected);
          const { offset: _, limit, ...walked } = asked;
          expect(await walk({ ...walked, limit: limit ?? 3 })).toEqual(
            oracle({ ...walked, limit: 1e9 }).names,
          );
          found += expected.names.length;
        }
        await expectCountsToHold();
      },
    ),
    // The gates pile up from run to run, so that a shrunk example alone would not fail again.
    { numRuns: runs({ short: 8, long: 2_000 }), endOnFailure: true },
  );
  // The control: searches that never find anything would agree with anything.
  expect(found).toBeGreaterThan(0);
});
