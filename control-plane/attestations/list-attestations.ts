import type { PendingQuery } from 'postgres';
import type { Attestation } from '../../shared/model/attestation.ts';
import { type DecisionReason, type Outcome, outcomes } from '../../shared/model/decision.ts';
import type { AttestationId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Database } from '../base/database.ts';
import { passportIdsOfAgent } from '../passports/passport-store.ts';
import { type AttestationRow, attestationColumns, attestationOf } from './attestation-row.ts';

/**
 * Records that one page examines for filters that no index serves: about 3 us each. An index for each would
 * make every record a tenth larger.
 */
const recordsExaminedMax = 2_000;

/**
 * Passports of one agent along which a list walks, all at once: planning such a query takes 0.5 ms for each.
 * Of an agent with more the records of its account are examined.
 */
const agentPassportsMax = 8;

/**
 * What a page is narrowed to. Null: not narrowed. Ids and keys are compared as they are: one that does not
 * exist matches nothing.
 */
export interface AttestationFilter {
  readonly passportId: string | null;
  readonly gateId: string | null;
  /** An agent of the owner, with all of its passports. */
  readonly agentId: string | null;
  readonly decision: Outcome | null;
  readonly reason: DecisionReason | null;
  readonly permissionKey: string | null;
  /** Not older than this. */
  readonly sinceMs: UnixMillis | null;
  /** Older than this: windows with one's end as the next one's start share no record. */
  readonly untilMs: UnixMillis | null;
}

/**
 * The place of a record in every list: newest first, and of those decided in the same millisecond the one
 * that arrived last.
 */
export interface Place {
  readonly timestampMs: UnixMillis;
  /**
   * Order of arrival; no two records share one. Never published: it would reveal how much all accounts
   * together do.
   */
  readonly position: number;
}

export interface PageAsked {
  readonly limit: number;
  /** The page begins after this place; null: with the newest. */
  readonly behind: Place | null;
}

export interface AttestationPage {
  readonly attestations: readonly Attestation[];
  /** The next page begins after this record, which need not be on this one; null on the last page. */
  readonly last: AttestationId | null;
}

/**
 * A page of what the owner may read (contract §9). A record keeps its place for ever, so that those that
 * arrive meanwhile neither repeat nor hide any: one that was decided before the last of a page, and arrives
 * later, is on a later page. With filters that no index serves, a page ends after `examinedMax` records, and
 * may then be short or empty although others follow.
 */
export async function listAttestations(
  sql: Database,
  owner: Owner,
  filter: AttestationFilter,
  { limit, behind }: PageAsked,
  examinedMax = recordsExaminedMax,
): Promise<AttestationPage> {
  const passportIds = await passportsWalked(sql, owner, filter);
  if (passportIds?.length === 0) return { attestations: [], last: null };
  // One more than asked for shows whether there is a next page.
  const query = { ...filter, passportIds, behind, limit: limit + 1, examinedMax };
  const rows = await pageQuery(sql, owner, query);
  const matching = rows.filter(({ matches }) => matches);
  const page = matching.slice(0, limit);
  const isFull = matching.length > limit;
  const last = isFull ? page.at(-1) : rows.find(({ examined }) => examined === examinedMax);
  return { attestations: page.map(attestationOf), last: last?.attestation_id ?? null };
}

/** The passports along whose records to walk; null: along all records of the owner. */
export async function passportsWalked(
  sql: Database,
  owner: Owner,
  { passportId, agentId }: AttestationFilter,
): Promise<readonly string[] | null> {
  if (agentId === null) return passportId === null ? null : [passportId];
  const ids = await passportIdsOfAgent(sql, owner, { agentId, passportId, max: agentPassportsMax + 1 });
  return ids.length > agentPassportsMax ? null : ids;
}

export interface PageQuery extends AttestationFilter, PageAsked {
  /** In place of `passportId`; null: all, of which those of other agents than `agentId` do not match. */
  readonly passportIds: readonly string[] | null;
  readonly examinedMax: number;
}

/** Narrowed to nothing, from the newest record on. */
export const everything = {
  passportId: null,
  passportIds: null,
  gateId: null,
  agentId: null,
  decision: null,
  reason: null,
  permissionKey: null,
  sinceMs: null,
  untilMs: null,
  behind: null,
  examinedMax: recordsExaminedMax,
} as const satisfies Partial<PageQuery>;

interface ExaminedRow extends AttestationRow {
  readonly matches: boolean;
  /** How many records were examined for the page, this one included. */
  readonly examined: number;
}

/**
 * One walk along an index for each decision that is wanted and each way in which the owner comes to read a
 * record; each ends when it has filled a page, and what they found is merged. However many records there are,
 * nothing is read that could not be on the page (test/api/attestation-lists.test.ts counts it), unless a
 * filter is set that no index serves. Then the records on the walks are examined one by one, and the last one
 * that may be is answered too, whether it matches or not: the next page begins there.
 *
 * The conditions of a walk are those of its index and no others, or PostgreSQL might prefer an index along
 * which it finds nothing for long. That the owner may read what was found is checked again at the end.
 */
export function pageQuery(sql: Database, owner: Owner, query: PageQuery): PendingQuery<ExaminedRow[]> {
  const { limit, behind, sinceMs, untilMs, examinedMax } = query;
  const matches = matchesOf(sql, owner, query);
  const inOrder = sql`ORDER BY timestamp_ms DESC, position DESC`;
  const walked = sql`${inOrder} LIMIT ${matches === null ? limit : examinedMax}`;
  const narrowed = sql`
    ${sinceMs === null ? sql`` : sql`AND timestamp_ms >= ${sinceMs}`}
    ${untilMs === null ? sql`` : sql`AND timestamp_ms < ${untilMs}`}
    ${behind === null ? sql`` : sql`AND (timestamp_ms, position) < (${behind.timestampMs}, ${behind.position})`}`;
  const walks = waysOf(sql, owner, query).flatMap((way) =>
    decisionsOf(query).map(
      (decision) =>
        sql`(SELECT * FROM attestations WHERE ${way} AND decision = ${decision} ${narrowed} ${walked})`,
    ),
  );
  const found = sql`(${walks.reduce((all, walk) => sql`${all} UNION ALL ${walk}`)}) AS found`;
  const isReadable = sql`(${isReader(sql, owner)} OR ${isOtherReader(sql, owner)})`;
  return matches === null
    ? sql<ExaminedRow[]>`
        SELECT ${sql(attestationColumns)}, true AS matches, 0 AS examined FROM ${found}
        WHERE ${isReadable} ${inOrder} LIMIT ${limit}`
    : sql<ExaminedRow[]>`
        SELECT ${sql(attestationColumns)}, matches, examined FROM (
          SELECT *, ${matches} AS matches, row_number() OVER (${inOrder}) AS examined FROM ${found} ${walked}
        ) AS examined
        WHERE (matches OR examined = ${examinedMax}) AND ${isReadable} ${inOrder} LIMIT ${limit}`;
}

/** Only a PERMIT has no reason, and a SUSPEND has a single one. */
function decisionsOf({ decision, reason }: AttestationFilter): readonly Outcome[] {
  if (decision !== null) return [decision];
  if (reason === null) return outcomes;
  return reason === 'approval_required' ? ['SUSPEND', 'BLOCK'] : ['BLOCK'];
}

/** What no index serves; null: nothing. */
function matchesOf(
  sql: Database,
  { accountId, mode }: Owner,
  { passportIds, agentId, reason, permissionKey }: PageQuery,
) {
  const ofAgent = sql`EXISTS (
    SELECT FROM passports p WHERE p.passport_id = found.passport_id
      AND p.account_id = ${accountId} AND p.mode = ${mode} AND p.agent_id = ${agentId})`;
  const conditions = [
    ...(agentId === null || passportIds !== null ? [] : [ofAgent]),
    ...(reason === null ? [] : [sql`reason IS NOT DISTINCT FROM ${reason}`]),
    ...(permissionKey === null ? [] : [sql`permission_key IS NOT DISTINCT FROM ${permissionKey}`]),
  ];
  return conditions.length === 0 ? null : conditions.reduce((all, each) => sql`${all} AND ${each}`);
}

/**
 * The ways in which records that match come to be read by the owner. No record is found on two of them,
 * because its two readers are never the same. A passport or gate has one owner, who reads all of its records
 * and walks along them; any other account walks along those that it may read for another reason.
 */
function waysOf(sql: Database, owner: Owner, { passportIds, agentId, gateId }: PageQuery) {
  const reader = isReader(sql, owner);
  const otherReader = isOtherReader(sql, owner);
  const { accountId, mode } = owner;
  const ownsGate = sql`EXISTS (
    SELECT FROM gates WHERE gate_id = ${gateId} AND account_id = ${accountId} AND mode = ${mode})`;
  if (passportIds !== null) {
    return passportIds.flatMap((passportId) => {
      const ownsPassport = sql`EXISTS (
        SELECT FROM passports WHERE passport_id = ${passportId} AND account_id = ${accountId} AND mode = ${mode})`;
      if (gateId !== null)
        return [
          sql`passport_id = ${passportId} AND gate_id = ${gateId} AND (${ownsPassport} OR ${ownsGate})`,
        ];
      const own = sql`passport_id = ${passportId} AND ${ownsPassport}`;
      return agentId !== null ? [own] : [own, sql`${otherReader} AND passport_id = ${passportId}`];
    });
  }
  if (gateId !== null) {
    return [
      sql`gate_id = ${gateId} AND ${ownsGate}`,
      sql`${reader} AND other_reader_account_id IS NOT NULL AND gate_id = ${gateId}`,
    ];
  }
  return agentId !== null ? [reader] : [reader, otherReader];
}

/**
 * A record that the owner may read, or whose id its call was answered with: `/enforce` without a gate records
 * in the chain of a passport that may be another account's (contract §5). Null where there is none of that
 * id.
 */
export async function findAttestation(
  sql: Database,
  owner: Owner,
  attestationId: AttestationId,
): Promise<Attestation | null> {
  const row = await findRow(sql, owner, attestationId);
  return row === null ? null : attestationOf(row);
}

/** The place of such a record. */
export async function findPlace(
  sql: Database,
  owner: Owner,
  attestationId: AttestationId,
): Promise<Place | null> {
  const row = await findRow(sql, owner, attestationId);
  return row === null ? null : { timestampMs: row.timestamp_ms, position: row.position };
}

async function findRow(
  sql: Database,
  owner: Owner,
  attestationId: AttestationId,
): Promise<AttestationRow | null> {
  const [row] = await sql<AttestationRow[]>`
    SELECT ${sql(attestationColumns)} FROM attestations
    WHERE attestation_id = ${attestationId}
      AND (${isReader(sql, owner)} OR ${isOtherReader(sql, owner)} OR ${isSource(sql, owner)})`;
  return row ?? null;
}

const isReader = (sql: Database, { accountId, mode }: Owner) =>
  sql`(reader_account_id = ${accountId} AND reader_mode = ${mode})`;

const isOtherReader = (sql: Database, { accountId, mode }: Owner) =>
  sql`(other_reader_account_id = ${accountId} AND other_reader_mode = ${mode})`;

/**
 * The caller's mode is that of the passport, to which `reader_mode` belongs, but where that was the very
 * reason of the BLOCK.
 */
const isSource = (sql: Database, { accountId, mode }: Owner) =>
  sql`(source_account = ${accountId} AND gate_id IS NULL
    AND (reader_mode = ${mode}) <> (reason IS NOT DISTINCT FROM 'mode_mismatch'))`;
