/**
 * Room `control-plane/discovery`: the public index of offers: found here, kept by `index-gates.ts` and
 * `index-account.ts`.
 */

import type { PendingQuery, Row } from 'postgres';
import { must } from '../../shared/errors/assert.ts';
import { type DiscoveryQuery, type Offer, renderOffer } from '../../shared/wire/api/discovery.ts';
import type { Database, Transaction } from '../base/database.ts';
import { readStalePage } from '../storage/replica-reads.ts';
import { readStoredEntry } from '../storage/stored-catalog-entry.ts';
import type { DiscoveryDeps } from './deps.ts';
import { type OfferPlace, placeOfQuery, renderOfferCursor } from './offer-cursor.ts';

type Fragment = PendingQuery<Row[]>;

/**
 * `GET /discover`: public, without a scope. The matching offers and their total (contract §10). Both queries
 * scale to a million entries: docs/catalogs.md shows the plans. They run one after the other, not in one
 * snapshot: a catalog published in between counts in one of them only.
 *
 * The callers are anonymous, so all together have `limits.discoveriesAtOnceMax` connections. Throws
 * `overloaded` beyond that and a short queue, `invalid_request` for a cursor of another query.
 */
export async function discoverGates(
  { sql, discoveries }: Pick<DiscoveryDeps, 'sql' | 'discoveries'>,
  query: DiscoveryQuery,
) {
  return discoveries('everybody', async () => {
    const page = await readStalePage(sql, { owner: null, query }, readOffers);
    return { ...page, query };
  });
}

async function readOffers(sql: Database | Transaction, query: DiscoveryQuery) {
  const after = placeOfQuery(query);
  const rows = await offersQuery(sql, query, after);
  const [totals] = await totalQuery(sql, query);
  const page = rows.slice(0, query.limit);
  const last = page.at(-1);
  return {
    results: page.map((row) => renderOffer(toOffer(row))),
    total: must(totals, 'an aggregate has a row').total,
    next_cursor: rows.length > page.length && last !== undefined ? renderOfferCursor(last, query) : null,
  };
}

/** A capability with a colon is a permission key; without, an area or a category. No entry matches both. */
const columnsOf = (sql: Database | Transaction, { capability }: DiscoveryQuery): readonly Fragment[] =>
  capability.includes(':') ? [sql`permission_key`] : [sql`area`, sql`category`];

type OfferRow = Omit<Offer, 'entry' | 'catalog'> &
  Offer['catalog'] &
  OfferPlace & { readonly entry: unknown };

/** The page in order, plus one more row if there is one. `after`: the page begins after that offer. */
export function offersQuery(
  sql: Database | Transaction,
  query: DiscoveryQuery,
  after: OfferPlace | null = null,
): PendingQuery<OfferRow[]> {
  const { limit, offset } = query;
  const order = orderOf(sql, query);
  // Each part reads its index only and stops when it has enough; other columns are looked up for the page
  // only.
  const parts = columnsOf(sql, query).flatMap((column) =>
    partsOf(sql, query, after).map(
      (part) => sql`(
        SELECT gate_id, permission_key, price_cents, uptime_basis_points, response_time_ms
        FROM discovery_entries
        WHERE ${column} = ${query.capability} AND ${filtersOf(sql, query)} ${part.where}
        ORDER BY ${part.order}, gate_id, permission_key LIMIT ${limit + offset + 1})`,
    ),
  );
  // The tables for look-ups, and their indexes, use the database's collation.
  return sql<OfferRow[]>`
    WITH found AS MATERIALIZED (
      SELECT * FROM (${parts.reduce((all, part) => sql`${all} UNION ALL ${part}`)}) AS parts
      ORDER BY ${order}, gate_id, permission_key LIMIT ${limit + 1} OFFSET ${offset}
    )
    SELECT g.gate_id AS "gateId", g.name AS "gateName", g.trust_level AS "trustLevel", e.entry, c.version,
      c.content_hash AS "contentHash", c.signature, c.signing_key_id AS "signingKeyId",
      found.${figureOf(sql, query)} AS figure, found.permission_key AS "permissionKey"
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

/** The sort column. */
function figureOf(sql: Database | Transaction, { sort }: DiscoveryQuery): Fragment {
  const figures = {
    price_asc: sql`price_cents`,
    price_desc: sql`price_cents`,
    uptime_desc: sql`uptime_basis_points`,
    response_asc: sql`response_time_ms`,
  };
  return figures[sort];
}

const isDescending = ({ sort }: DiscoveryQuery): boolean => sort === 'price_desc' || sort === 'uptime_desc';

/** Nulls last, in either direction. `of`: the table, with its dot. */
const orderOf = (sql: Database | Transaction, query: DiscoveryQuery, of = sql``): Fragment =>
  sql`${of}${figureOf(sql, query)} ${isDescending(query) ? sql`DESC` : sql``} NULLS LAST`;

interface Part {
  readonly where: Fragment;
  readonly order: Fragment;
}

/**
 * Index ranges that together form the results. The first page is one range, except by price descending: read
 * backwards, the index has its nulls first, so priced and unpriced entries are separate ranges. After a
 * cursor there are three: entries with its figure, entries with a later figure, entries without one. As one
 * condition with OR, the index would be read from its start.
 */
function partsOf(
  sql: Database | Transaction,
  query: DiscoveryQuery,
  after: OfferPlace | null,
): readonly Part[] {
  const figure = figureOf(sql, query);
  const order = orderOf(sql, query);
  const without: Part = { where: sql`AND ${figure} IS NULL`, order: figure };
  if (after === null) {
    if (query.sort !== 'price_desc') return [{ where: sql``, order }];
    const priced: Part = { where: sql`AND price_cents IS NOT NULL`, order: sql`price_cents DESC` };
    return mustBePriced(query) ? [priced] : [priced, without];
  }
  const isBehind = sql`AND (gate_id, permission_key) > (${after.gateId}, ${after.permissionKey})`;
  if (after.figure === null) return [{ ...without, where: sql`${without.where} ${isBehind}` }];
  const same: Part = { where: sql`AND ${figure} = ${after.figure}::bigint ${isBehind}`, order: figure };
  const further: Part = isDescending(query)
    ? { where: sql`AND ${figure} < ${after.figure}::bigint`, order: sql`${figure} DESC` }
    : { where: sql`AND ${figure} > ${after.figure}::bigint`, order: figure };
  return [same, further, without];
}

/** Unpriced entries match unless the query names a price or a model. */
const mustBePriced = (query: DiscoveryQuery): boolean =>
  query.max_price_cents !== undefined || query.pricing_model !== undefined;

function filtersOf(sql: Database | Transaction, query: DiscoveryQuery): Fragment {
  const {
    currency,
    max_price_cents: maxPrice,
    pricing_model: model,
    min_security_profile: minLevel,
    min_uptime_bp: minUptime,
    max_response_time_ms: maxResponse,
  } = query;
  // The bounds may exceed the columns' type, and casting the columns would bypass the index.
  return sql`
    ${mustBePriced(query) ? sql`currency = ${currency}` : sql`(currency IS NULL OR currency = ${currency})`}
    ${maxPrice === undefined ? sql`` : sql`AND price_cents <= ${maxPrice}::bigint`}
    ${model === undefined ? sql`` : sql`AND pricing_model = ${model}`}
    ${minLevel === undefined ? sql`` : sql`AND trust_level >= ${minLevel}`}
    ${minUptime === undefined ? sql`` : sql`AND uptime_basis_points >= ${minUptime}::bigint`}
    ${maxResponse === undefined ? sql`` : sql`AND response_time_ms <= ${maxResponse}::bigint`}`;
}

/** The total of matches. */
export function totalQuery(sql: Database | Transaction, query: DiscoveryQuery): PendingQuery<TotalRow[]> {
  const isRanged =
    query.max_price_cents !== undefined ||
    query.min_uptime_bp !== undefined ||
    query.max_response_time_ms !== undefined;
  return isRanged ? countEntries(sql, query) : sumCounts(sql, query);
}

type TotalRow = { readonly total: number };

/** The index narrows the range; the rest is counted. */
function countEntries(sql: Database | Transaction, query: DiscoveryQuery) {
  const counts = columnsOf(sql, query).map(
    (column) => sql`(
      SELECT count(*) FROM discovery_entries
      WHERE ${column} = ${query.capability} AND ${filtersOf(sql, query)})`,
  );
  return sql<TotalRow[]>`SELECT ${counts.reduce((all, each) => sql`${all} + ${each}`)} AS total`;
}

/**
 * Areas and categories are counted under one name, and permission keys are neither, so the term is
 * unambiguous.
 */
function sumCounts(sql: Database | Transaction, query: DiscoveryQuery) {
  const { capability, currency, pricing_model: model, min_security_profile: minLevel } = query;
  return sql<TotalRow[]>`
    SELECT coalesce(sum(entries), 0)::bigint AS total FROM discovery_counts
    WHERE term = ${capability} AND currency IN (${currency}, ${mustBePriced(query) ? currency : ''})
      ${model === undefined ? sql`` : sql`AND pricing_model = ${model}`}
      ${minLevel === undefined ? sql`` : sql`AND trust_level >= ${minLevel}`}`;
}
