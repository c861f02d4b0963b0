import type { PendingQuery } from 'postgres';
import type { Attestation } from '../../shared/model/attestation.ts';
import { type Outcome, outcomes } from '../../shared/model/decision.ts';
import type { AttestationId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Database } from '../base/database.ts';
import { type AttestationRow, attestationColumns, attestationOf } from './attestation-row.ts';

/**
 * What a page is narrowed to. Null: not narrowed. Ids are compared as they are: one that does not exist
 * matches nothing.
 */
export interface AttestationFilter {
  readonly passportId: string | null;
  readonly gateId: string | null;
  readonly decision: Outcome | null;
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
  /** The page begins behind this place; null: with the newest. */
  readonly behind: Place | null;
}

export interface AttestationPage {
  readonly attestations: readonly Attestation[];
  /** Whether others follow the last one. */
  readonly hasMore: boolean;
}

/**
 * A page of what the owner may read (contract §9). A record keeps its place for ever, so that those that
 * arrive meanwhile neither repeat nor hide any: one that was decided before the last of a page, and arrives
 * later, stands on a later page.
 */
export async function listAttestations(
  sql: Database,
  owner: Owner,
  filter: AttestationFilter,
  page: PageAsked,
): Promise<AttestationPage> {
  // One more than wanted tells whether there is a next page.
  const rows = await pageQuery(sql, owner, filter, { ...page, limit: page.limit + 1 });
  return { attestations: rows.slice(0, page.limit).map(attestationOf), hasMore: rows.length > page.limit };
}

/**
 * One walk along an index for each decision that is wanted and each way in which the owner comes to read a
 * record; each ends when it has filled a page, and what they found is merged. Whatever the filters and
 * however many records there are, nothing is read that could not stand on the page
 * (test/api/attestation-lists.test.ts counts it).
 *
 * The conditions of a walk are those of its index and no others, or PostgreSQL might prefer an index along
 * which it finds nothing for long. That the owner may read what was found is asked again at the end.
 */
export function pageQuery(
  sql: Database,
  owner: Owner,
  filter: AttestationFilter,
  { limit, behind }: PageAsked,
): PendingQuery<AttestationRow[]> {
  const inOrder = sql`ORDER BY timestamp_ms DESC, position DESC LIMIT ${limit}`;
  const narrowed = sql`
    ${filter.sinceMs === null ? sql`` : sql`AND timestamp_ms >= ${filter.sinceMs}`}
    ${filter.untilMs === null ? sql`` : sql`AND timestamp_ms < ${filter.untilMs}`}
    ${behind === null ? sql`` : sql`AND (timestamp_ms, position) < (${behind.timestampMs}, ${behind.position})`}`;
  const decisions = filter.decision === null ? outcomes : [filter.decision];
  const walks = waysOf(sql, owner, filter).flatMap((way) =>
    decisions.map(
      (decision) =>
        sql`(SELECT * FROM attestations WHERE ${way} AND decision = ${decision} ${narrowed} ${inOrder})`,
    ),
  );
  return sql<AttestationRow[]>`
    SELECT ${sql(attestationColumns)}
    FROM (${walks.reduce((found, walk) => sql`${found} UNION ALL ${walk}`)}) AS found
    WHERE ${isReader(sql, owner)} OR ${isOtherReader(sql, owner)}
    ${inOrder}`;
}

/**
 * The ways in which records that match come to be read by the owner. No record is found on two of them,
 * because its two readers are never the same. A passport or gate has one owner, who reads all of its records
 * and walks along them; any other account walks along those that it may read for another reason.
 */
function waysOf(sql: Database, owner: Owner, { passportId, gateId }: AttestationFilter) {
  const reader = isReader(sql, owner);
  const otherReader = isOtherReader(sql, owner);
  const { accountId, mode } = owner;
  const ownsPassport = sql`EXISTS (
    SELECT FROM passports WHERE passport_id = ${passportId} AND account_id = ${accountId} AND mode = ${mode})`;
  const ownsGate = sql`EXISTS (
    SELECT FROM gates WHERE gate_id = ${gateId} AND account_id = ${accountId} AND mode = ${mode})`;
  if (passportId !== null && gateId !== null) {
    return [
      sql`passport_id = ${passportId} AND gate_id = ${gateId} AND (${ownsPassport} OR ${ownsGate})`,
    ] as const;
  }
  if (passportId !== null) {
    return [
      sql`passport_id = ${passportId} AND ${ownsPassport}`,
      sql`${otherReader} AND passport_id = ${passportId}`,
    ] as const;
  }
  if (gateId !== null) {
    return [
      sql`gate_id = ${gateId} AND ${ownsGate}`,
      sql`${reader} AND other_reader_account_id IS NOT NULL AND gate_id = ${gateId}`,
    ] as const;
  }
  return [reader, otherReader] as const;
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
