import type { PendingQuery, Row } from 'postgres';
import { must } from '../../shared/errors/assert.ts';
import { type DiscoveryQuery, type Offer, renderOffer } from '../../shared/wire/discovery.ts';
import { readStoredEntry } from '../catalogs/catalog-store.ts';
import type { Database, Deps } from '../deps.ts';

type Fragment = PendingQuery<Row[]>;

/** `GET /discover`: open to everybody, with no scope at all. */
export async function discoverGates({ sql }: Pick<Deps, 'sql'>, query: DiscoveryQuery) {
  const { offers, total } = await findOffers(sql, query);
  return { results: offers.map(renderOffer), total, query };
}

/**
 * The offers that match, and how many there are (decisions §10). Both are made for a million entries: docs/catalogs.md shows the plans.
 * They are read side by side, not from one snapshot: a catalog that is published in between counts in one and not the other.
 */
async function findOffers(
  sql: Database,
  query: DiscoveryQuery,
): Promise<{ readonly offers: readonly Offer[]; readonly total: number }> {
  const [rows, totals] = await Promise.all([offersQuery(sql, query), totalQuery(sql, query)]);
  return { offers: rows.map(toOffer), total: must(totals[0], 'an aggregate has a row').total };
}

/** A capability with a colon is a permission key; without, an area or a category. No entry is found by both. */
const columnsOf = (sql: Database, { capability }: DiscoveryQuery): readonly Fragment[] =>
  capability.includes(':') ? [sql`permission_key`] : [sql`area`, sql`category`];

type OfferRow = Omit<Offer, 'entry' | 'catalog'> & Offer['catalog'] & { readonly entry: unknown };

/** The page, in order. */
export function offersQuery(sql: Database, query: DiscoveryQuery): PendingQuery<OfferRow[]> {
  const { limit, offset } = query;
  const order = orderOf(sql, query);
  // Each part is read off its index alone and stops when it has enough; where the entries say more, only the page is looked up.
  const parts = columnsOf(sql, query).flatMap((column) =>
    partsOf(sql, query).map(
      (part) => sql`(
        SELECT gate_id, permission_key, price_cents, uptime_basis_points, response_time_ms
        FROM discovery_entries
        WHERE ${column} = ${query.capability} AND ${filtersOf(sql, query)} ${part.where}
        ORDER BY ${part.order}, gate_id, permission_key LIMIT ${limit + offset})`,
    ),
  );
  // The tables that are only looked up have the database's collation, and their indexes with them.
  return sql<OfferRow[]>`
    WITH found AS MATERIALIZED (
      SELECT * FROM (${parts.reduce((all, part) => sql`${all} UNION ALL ${part}`)}) AS parts
      ORDER BY ${order}, gate_id, permission_key LIMIT ${limit} OFFSET ${offset}
    )
    SELECT g.gate_id AS "gateId", g.name AS "gateName", g.trust_level AS "trustLevel", e.entry, c.version,
      c.content_hash AS "contentHash", c.signature, c.signing_key_id AS "signingKeyId"
    FROM found
    JOIN discovery_entries d USING (gate_id, permission_key)
    JOIN gates g ON g.gate_id = d.gate_id COLLATE "default"
    JOIN catalogs c ON c.gate_id = g.gate_id AND c.version = d.version
    JOIN catalog_entries e ON e.gate_id = g.gate_id AND e.version = d.version AND e.position = d.position
    ORDER BY ${orderOf(sql, query, sql`found.`)}, found.gate_id, found.permission_key`;
}

const toOffer = (row: OfferRow): Offer => ({
  gateId: row.gateId,
  gateName: row.gateName,
  trustLevel: row.trustLevel,
  entry: readStoredEntry(row.entry),
  catalog: {
    version: row.version,
    contentHash: row.contentHash,
    signature: row.signature,
    signingKeyId: row.signingKeyId,
  },
});

/** Nulls last, whichever way. `of`: the table, with its dot. */
function orderOf(sql: Database, { sort }: DiscoveryQuery, of = sql``): Fragment {
  const orders = {
    price_asc: sql`${of}price_cents NULLS LAST`,
    price_desc: sql`${of}price_cents DESC NULLS LAST`,
    uptime_desc: sql`${of}uptime_basis_points DESC NULLS LAST`,
    response_asc: sql`${of}response_time_ms NULLS LAST`,
  };
  return orders[sort];
}

/** The index by price, read backwards, has its nulls first: priced and unpriced entries are read apart. */
function partsOf(
  sql: Database,
  query: DiscoveryQuery,
): readonly { readonly where: Fragment; readonly order: Fragment }[] {
  if (query.sort !== 'price_desc') return [{ where: sql``, order: orderOf(sql, query) }];
  const priced = { where: sql`AND price_cents IS NOT NULL`, order: sql`price_cents DESC` };
  const unpriced = { where: sql`AND price_cents IS NULL`, order: sql`price_cents` };
  return mustBePriced(query) ? [priced] : [priced, unpriced];
}

/** Unpriced entries pass unless a price or a model is asked for. */
const mustBePriced = (query: DiscoveryQuery): boolean =>
  query.max_price_cents !== undefined || query.pricing_model !== undefined;

function filtersOf(sql: Database, query: DiscoveryQuery): Fragment {
  const {
    currency,
    max_price_cents: maxPrice,
    pricing_model: model,
    min_security_profile: minLevel,
    min_uptime_bp: minUptime,
    max_response_time_ms: maxResponse,
  } = query;
  // The bounds may be larger than the columns' type holds, and the cast must not stand on the columns' side.
  return sql`
    ${mustBePriced(query) ? sql`currency = ${currency}` : sql`(currency IS NULL OR currency = ${currency})`}
    ${maxPrice === undefined ? sql`` : sql`AND price_cents <= ${maxPrice}::bigint`}
    ${model === undefined ? sql`` : sql`AND pricing_model = ${model}`}
    ${minLevel === undefined ? sql`` : sql`AND trust_level >= ${minLevel}`}
    ${minUptime === undefined ? sql`` : sql`AND uptime_basis_points >= ${minUptime}::bigint`}
    ${maxResponse === undefined ? sql`` : sql`AND response_time_ms <= ${maxResponse}::bigint`}`;
}

/** How many match in all. */
export function totalQuery(sql: Database, query: DiscoveryQuery): PendingQuery<TotalRow[]> {
  const isRanged =
    query.max_price_cents !== undefined ||
    query.min_uptime_bp !== undefined ||
    query.max_response_time_ms !== undefined;
  return isRanged ? countEntries(sql, query) : sumCounts(sql, query);
}

type TotalRow = { readonly total: number };

/** A range is narrowed by its index; what is left is counted. */
function countEntries(sql: Database, query: DiscoveryQuery) {
  const counts = columnsOf(sql, query).map(
    (column) => sql`(
      SELECT count(*) FROM discovery_entries
      WHERE ${column} = ${query.capability} AND ${filtersOf(sql, query)})`,
  );
  return sql<TotalRow[]>`SELECT ${counts.reduce((all, each) => sql`${all} + ${each}`)} AS total`;
}

/** Areas and categories are counted under one name, permission keys cannot be either: the term alone is enough. */
function sumCounts(sql: Database, query: DiscoveryQuery) {
  const { capability, currency, pricing_model: model, min_security_profile: minLevel } = query;
  return sql<TotalRow[]>`
    SELECT coalesce(sum(entries), 0)::bigint AS total FROM discovery_counts
    WHERE term = ${capability} AND currency IN (${currency}, ${mustBePriced(query) ? currency : ''})
      ${model === undefined ? sql`` : sql`AND pricing_model = ${model}`}
      ${minLevel === undefined ? sql`` : sql`AND trust_level >= ${minLevel}`}`;
}
