import { formsOf } from '../../shared/decision/compile-conditions.ts';
import { InvariantError } from '../../shared/errors/assert.ts';
import type { Gate, GateShadow, GateStats } from '../../shared/model/gate.ts';
import type { AccountId, GateId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { TrustTier } from '../../shared/model/trust-tier.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { parseCatalogTerms, renderCatalogTerms } from '../../shared/wire/api/catalog.ts';
import { renderConstraints } from '../../shared/wire/api/constraints.ts';
import type { CountedGate } from '../../shared/wire/api/gate.ts';
import { parseGateRoutes, renderGateRoutes } from '../../shared/wire/api/gate-routes.ts';
import type { Page, PagePlace } from '../../shared/wire/api/paging.ts';
import type { Database, Transaction } from '../base/database.ts';
import { ofKey } from '../creation/unique-name.ts';
import { hasPart } from '../storage/has-part.ts';
import { readItems, readPage } from '../storage/read-page.ts';
import { readStoredActor, storedActor } from '../storage/stored-actor.ts';
import { readStoredConstraints } from '../storage/stored-constraints.ts';
import { readStoredLabels } from '../storage/stored-labels.ts';

type GateRow = Omit<
  Gate,
  'constraints' | 'routes' | 'labels' | 'catalogTerms' | 'lastChangedBy' | 'shadow'
> & {
  readonly labels: unknown;
  readonly constraints: unknown;
  readonly routes: unknown;
  readonly lastChangedBy: unknown;
  readonly shadow: ShadowRow | null;
  readonly catalogPrices: Readonly<Record<string, number | null>> | null;
  readonly catalogApprovals: readonly string[];
};
type CountedRow = GateRow & GateStats;

const columns = (sql: Database | Transaction) => sql`
  g.gate_id AS "gateId", g.account_id AS "accountId", g.mode, g.name, g.description, g.trust_level AS "trustLevel",
  g.constraints, g.routes, g.labels, g.catalog_prices AS "catalogPrices", g.catalog_approvals AS "catalogApprovals", g.version, g.policy_version AS "policyVersion",
  (SELECT policy_hash FROM gate_policies p WHERE p.gate_id = g.gate_id AND p.policy_version = g.policy_version) AS "policyHash", g.created_at_ms AS "createdAtMs",
  g.updated_at_ms AS "updatedAtMs", g.last_changed_by AS "lastChangedBy",
  (SELECT jsonb_build_object('trust_level', s.trust_level, 'constraints', s.constraints, 'routes', s.routes, 'policy_hash', s.policy_hash,
      'base_policy_hash', s.base_policy_hash, 'created_at_ms', s.created_at_ms, 'expires_at_ms', s.expires_at_ms)
    FROM gate_shadows s
    WHERE s.gate_id = g.gate_id AND s.base_policy_version = g.policy_version AND s.ended_at_ms IS NULL) AS shadow`;

const stats = (sql: Database | Transaction) => sql`
  coalesce(u.total_requests, 0) AS "totalRequests", coalesce(u.permits, 0) AS permits,
  coalesce(u.blocks, 0) AS blocks, u.last_request_at_ms AS "lastRequestAtMs"`;

/**
 * Rows were validated before they were written, so an unreadable one is an internal error that names the
 * gate.
 */
function toGate(row: GateRow): Gate {
  try {
    return readRow(row);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new InvariantError(`the row of gate ${row.gateId} can be read: ${why}`, { cause });
  }
}

const readRow = (row: GateRow): Gate => ({
  gateId: row.gateId,
  accountId: row.accountId,
  mode: row.mode,
  name: row.name,
  description: row.description,
  trustLevel: row.trustLevel,
  constraints: readStoredConstraints(row.constraints, 'gate'),
  routes: readStoredRoutes(row.routes),
  labels: readStoredLabels(row.labels),
  catalogTerms:
    row.catalogPrices === null
      ? null
      : parseCatalogTerms({ prices: row.catalogPrices, approvals: row.catalogApprovals }),
  version: row.version,
  policyVersion: row.policyVersion,
  policyHash: row.policyHash,
  createdAtMs: row.createdAtMs,
  updatedAtMs: row.updatedAtMs,
  lastChangedBy: readStoredActor(row.lastChangedBy),
  shadow: row.shadow === null ? null : readShadow(row.shadow),
});

interface ShadowRow {
  readonly trust_level: TrustTier;
  readonly constraints: unknown;
  readonly routes: unknown;
  readonly policy_hash: string;
  readonly base_policy_hash: string;
  readonly created_at_ms: UnixMillis;
  readonly expires_at_ms: UnixMillis;
}

const readShadow = (row: ShadowRow): GateShadow => ({
  trustLevel: row.trust_level,
  constraints: readStoredConstraints(row.constraints, 'gate'),
  routes: readStoredRoutes(row.routes),
  policyHash: row.policy_hash,
  basePolicyHash: row.base_policy_hash,
  createdAtMs: row.created_at_ms,
  expiresAtMs: row.expires_at_ms,
});

const toCountedGate = (row: CountedRow): CountedGate => ({
  ...toGate(row),
  stats: {
    totalRequests: row.totalRequests,
    permits: row.permits,
    blocks: row.blocks,
    lastRequestAtMs: row.lastRequestAtMs,
  },
});

/** Null in the row: none, as in rows of earlier versions. */
export const routesColumn = ({ routes }: Pick<Gate, 'routes'>): string | null =>
  routes.length === 0 ? null : JSON.stringify(renderGateRoutes(routes));

/** Null: it has no conditions. */
const formsColumn = ({ constraints: { conditions } }: Gate): string | null =>
  conditions.length === 0 ? null : JSON.stringify(formsOf(conditions));

/** Routes were validated before they were written: unreadable ones are an InvariantError. */
function readStoredRoutes(stored: unknown): Gate['routes'] {
  try {
    return parseGateRoutes(stored ?? []);
  } catch (cause) {
    throw new InvariantError('the stored routes of a gate can be read', { cause });
  }
}

/** The two columns of the catalog's terms. */
function termColumns({ catalogTerms }: Gate): {
  readonly prices: string | null;
  readonly approvals: string[];
} {
  if (catalogTerms === null) return { prices: null, approvals: [] };
  const { prices, approvals } = renderCatalogTerms(catalogTerms);
  return { prices: JSON.stringify(prices), approvals: [...approvals] };
}

export async function insertGate(tx: Transaction, gate: Gate): Promise<void> {
  const { prices, approvals } = termColumns(gate);
  await tx`
    INSERT INTO gates (gate_id, account_id, mode, name, description, trust_level, constraints, routes, labels,
      condition_forms, catalog_prices, catalog_approvals, version, policy_version, created_at_ms, updated_at_ms, last_changed_by)
    VALUES (${gate.gateId}, ${gate.accountId}, ${gate.mode}, ${gate.name}, ${gate.description}, ${gate.trustLevel},
      ${JSON.stringify(renderConstraints(gate.constraints))}::text::jsonb, ${routesColumn(gate)}::text::jsonb,
      ${JSON.stringify(gate.labels)}::text::jsonb, ${formsColumn(gate)}::text::jsonb, ${prices}::text::jsonb, ${approvals}::text[], ${gate.version}, ${gate.policyVersion}, ${gate.createdAtMs}, ${gate.updatedAtMs},
      ${storedActor(gate.lastChangedBy)}::text::jsonb)`;
}

export async function hasGateNamed(
  tx: Transaction,
  owner: Owner,
  name: string,
  key: string | null,
): Promise<boolean> {
  const rows = await tx`
    SELECT FROM gates
    WHERE account_id = ${owner.accountId} AND mode = ${owner.mode} AND deleted_at_ms IS NULL AND name = ${name} ${ofKey(tx, tx`labels`, key)} LIMIT 1`;
  return rows.length > 0;
}

/** The undeleted ones of the account, in both modes. */
export async function findGates(
  tx: Database | Transaction,
  accountId: AccountId,
  gateIds: readonly GateId[],
): Promise<ReadonlyMap<GateId, Gate>> {
  if (gateIds.length === 0) return new Map();
  const rows = await tx<GateRow[]>`
    SELECT ${columns(tx)} FROM gates g
    WHERE g.gate_id = ANY(${[...gateIds]}::text[]) AND g.account_id = ${accountId} AND g.deleted_at_ms IS NULL`;
  return new Map(rows.map((row) => [row.gateId, toGate(row)]));
}

/** Deleted gates are not found. */
export async function findGate(
  sql: Database | Transaction,
  owner: Owner,
  gateId: GateId,
): Promise<Gate | null> {
  const [row] = await sql<GateRow[]>`
    SELECT ${columns(sql)} FROM gates g
    WHERE g.gate_id = ${gateId} AND g.account_id = ${owner.accountId} AND g.mode = ${owner.mode}
      AND g.deleted_at_ms IS NULL`;
  return row === undefined ? null : toGate(row);
}

/**
 * Locks the gate against other changes. Waits for decisions that hold its policy (`holdPolicy`), not for rows
 * that only reference the gate.
 */
export async function lockGate(tx: Transaction, owner: Owner, gateId: GateId): Promise<Gate | null> {
  const [row] = await tx<GateRow[]>`
    SELECT ${columns(tx)} FROM gates g
    WHERE g.gate_id = ${gateId} AND g.account_id = ${owner.accountId} AND g.mode = ${owner.mode}
      AND g.deleted_at_ms IS NULL
    FOR NO KEY UPDATE`;
  return row === undefined ? null : toGate(row);
}

export async function findCountedGate(
  sql: Database,
  owner: Owner,
  gateId: GateId,
): Promise<CountedGate | null> {
  const [row] = await sql<CountedRow[]>`
    SELECT ${columns(sql)}, ${stats(sql)} FROM gates g LEFT JOIN gate_use u USING (gate_id)
    WHERE g.gate_id = ${gateId} AND g.account_id = ${owner.accountId} AND g.mode = ${owner.mode}
      AND g.deleted_at_ms IS NULL`;
  return row === undefined ? null : toCountedGate(row);
}

export async function listGates<Item>(
  sql: Database | Transaction,
  owner: Owner,
  asked: {
    readonly namePart: string | null;
    readonly page: PagePlace;
    readonly toItem: (gate: CountedGate) => Item;
    readonly logger: Logger;
  },
): Promise<Page<Item>> {
  const { namePart, page, toItem, logger } = asked;
  const where = sql`g.account_id = ${owner.accountId} AND g.mode = ${owner.mode} AND g.deleted_at_ms IS NULL
    ${hasPart(sql, sql`g.name`, namePart)}`;
  const idOf = ({ gateId }: CountedRow) => gateId;
  const rows = await readPage(page, {
    count: () => sql<{ total: number }[]>`SELECT count(*) AS total FROM gates g WHERE ${where}`,
    rows: (limit) => sql<CountedRow[]>`
      SELECT ${columns(sql)}, ${stats(sql)} FROM gates g LEFT JOIN gate_use u USING (gate_id)
      WHERE ${where} ${page.behind === null ? sql`` : sql`AND g.gate_id < ${page.behind}`}
      ORDER BY g.gate_id DESC LIMIT ${limit} OFFSET ${page.offset}`,
    idOf,
  });
  return readItems(rows, { of: 'gate', idOf, toItem: (row) => toItem(toCountedGate(row)), logger });
}

/** The owner's undeleted gates by ascending id. */
export async function readGatesAfter(
  sql: Database,
  { accountId, mode }: Owner,
  { after, max }: { readonly after: string; readonly max: number },
): Promise<readonly Gate[]> {
  const rows = await sql<GateRow[]>`
    SELECT ${columns(sql)} FROM gates g
    WHERE g.account_id = ${accountId} AND g.mode = ${mode} AND g.deleted_at_ms IS NULL AND g.gate_id > ${after}
    ORDER BY g.gate_id LIMIT ${max}`;
  return rows.map(toGate);
}

export async function updateGateRow(tx: Transaction, gate: Gate): Promise<void> {
  const { prices, approvals } = termColumns(gate);
  await tx`
    UPDATE gates SET name = ${gate.name}, description = ${gate.description}, trust_level = ${gate.trustLevel},
      constraints = ${JSON.stringify(renderConstraints(gate.constraints))}::text::jsonb,
      condition_forms = ${formsColumn(gate)}::text::jsonb,
      routes = ${routesColumn(gate)}::text::jsonb, labels = ${JSON.stringify(gate.labels)}::text::jsonb,
      catalog_prices = ${prices}::text::jsonb, catalog_approvals = ${approvals}::text[], version = ${gate.version},
      policy_version = ${gate.policyVersion}, updated_at_ms = ${gate.updatedAtMs},
      last_changed_by = ${storedActor(gate.lastChangedBy)}::text::jsonb
    WHERE gate_id = ${gate.gateId}`;
}

/**
 * Whether the gate still has this policy version; if so, holds it until the transaction ends. So the next
 * change sees, and voids, an approval opened under it. Null: it has not.
 */
export async function holdPolicy(
  tx: Transaction,
  { gateId, policyVersion }: Pick<Gate, 'gateId' | 'policyVersion'>,
): Promise<HeldPolicy | null> {
  const [held] = await tx<HeldPolicy[]>`
    SELECT coalesce((constraints #> '{approvals,approvers}') IS NOT NULL
        AND (constraints #> '{approvals,approvers,not_requester}') IS DISTINCT FROM 'false'::jsonb, false)
      AS "namesAsker",
      coalesce((constraints #> '{approvals,approvers,not_owner}') = 'true'::jsonb, false) AS "asksForOwner",
      coalesce((constraints #> '{approvals,approvers,independent}') = 'true'::jsonb, false) AS "isIndependent"
    FROM gates WHERE gate_id = ${gateId} AND policy_version = ${policyVersion} AND deleted_at_ms IS NULL
    FOR SHARE`;
  return held ?? null;
}

export interface HeldPolicy {
  /** Whether its approvals are answered by people other than the one who asked. */
  readonly namesAsker: boolean;
  /** Whether the owner of the passport does not answer them. */
  readonly asksForOwner: boolean;
  /** Whether people who could have opened each other's links are one person there. */
  readonly isIndependent: boolean;
}

/** The row stays, because attestations name it. */
export async function markGateDeleted(tx: Transaction, gateId: GateId, nowMs: UnixMillis): Promise<void> {
  await tx`UPDATE gates SET deleted_at_ms = ${nowMs} WHERE gate_id = ${gateId}`;
}
