import type { PendingQuery } from 'postgres';
import type { Attestation } from '../../shared/model/attestation.ts';
import { type DecisionReason, type Outcome, outcomes } from '../../shared/model/decision.ts';
import type { AttestationId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Database, Transaction } from '../base/database.ts';
import { passportIdsOfAgent } from '../passports/passport-store.ts';
import { distinct } from '../storage/distinct.ts';
import { ownerName } from '../storage/stored-owner.ts';
import { idOfUuid, timeOfId, uuidOfId } from './id-uuid.ts';
import { findNumbers, type RecordNames } from './record-names.ts';
import { attestationsOf, letterOf, recordColumns, type StoredRecord } from './record-row.ts';

/**
 * Records that one page examines for filters without an index: about 3 us each. An index for each filter
 * would make every record a tenth larger.
 */
const recordsExaminedMax = 2_000;

/**
 * Passports of one agent that a list walks at once: planning takes 0.5 ms each. For an agent with more, the
 * records of its account are examined.
 */
const agentPassportsMax = 8;

export const outcomeFilters = ['missing', 'served', 'failed'] as const;
export type OutcomeFilter = (typeof outcomeFilters)[number];

/** Filters of a page. Null: no filter. Ids and keys are compared exactly: an unknown one matches nothing. */
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
  /** PERMITs with such an outcome, or with none (contract §19). Absent: no filter. */
  readonly outcome?: OutcomeFilter;
  /** Older than this: windows with one's end as the next one's start share no record. */
  readonly untilMs: UnixMillis | null;
}

/**
 * The place of a record in every list: newest first, and of those decided in the same millisecond the one
 * that arrived last (but for those on both sides of a multiple of 2^20 positions, see 0028).
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
  readonly after: Place | null;
}

export interface AttestationPage {
  readonly attestations: readonly Attestation[];
  /** The next page begins after this record, which need not be on this one; null on the last page. */
  readonly last: AttestationId | null;
}

/**
 * A page of records that the owner may read (contract §9). A record's place never changes, so new arrivals
 * neither repeat nor hide records: a late record that was decided before the last of a page is on a later
 * page. With filters without an index a page ends after `examinedMax` records, and may be short or empty
 * although others follow.
 */
export async function listAttestations(
  sql: Database | Transaction,
  owner: Owner,
  filter: AttestationFilter,
  { limit, after }: PageAsked,
  examinedMax = recordsExaminedMax,
): Promise<AttestationPage> {
  const passportIds = await passportsWalked(sql, owner, filter);
  if (passportIds?.length === 0) return { attestations: [], last: null };
  // One extra record shows whether there is a next page.
  const query = { ...filter, passportIds, after, limit: limit + 1, examinedMax };
  const rows = await pageQuery(sql, owner, query, await numbersAsked(sql, owner, query));
  const matching = rows.filter(({ matches }) => matches);
  const page = matching.slice(0, limit);
  const isFull = matching.length > limit;
  const last = isFull ? page.at(-1) : rows.find(({ examined }) => examined === examinedMax);
  return {
    attestations: await attestationsOf(sql, page),
    last: last === undefined ? null : idOfUuid(last.attestation_id),
  };
}

/** The passports to walk along; null: all records of the owner. */
export async function passportsWalked(
  sql: Database | Transaction,
  owner: Owner,
  { passportId, agentId }: AttestationFilter,
): Promise<readonly string[] | null> {
  if (agentId === null) return passportId === null ? null : [passportId];
  const ids = await passportIdsOfAgent(sql, owner, { agentId, passportId, max: agentPassportsMax + 1 });
  return ids.length > agentPassportsMax ? null : ids;
}

export interface PageQuery extends AttestationFilter, PageAsked {
  /** Replaces `passportId`; null: all, and records of agents other than `agentId` do not match. */
  readonly passportIds: readonly string[] | null;
  readonly examinedMax: number;
}

/** No filter, from the newest record. */
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
  after: null,
  examinedMax: recordsExaminedMax,
} as const satisfies Partial<PageQuery>;

/** The numbers of the filtered names; null: no record has them. */
export interface NumbersAsked {
  readonly owner: number | null;
  readonly gate: number | null;
  readonly reason: number | null;
  /** Numbers of passports, by id. */
  readonly chains: ReadonlyMap<string, number>;
}

export async function numbersAsked(
  sql: Database | Transaction,
  owner: Owner,
  { passportIds, gateId, reason }: Pick<PageQuery, 'passportIds' | 'gateId' | 'reason'>,
): Promise<NumbersAsked> {
  const name = ownerName(owner);
  const [names, chains]: [RecordNames, readonly { chainId: string; number: number }[]] = await Promise.all([
    findNumbers(sql, distinct([name, gateId, reason])),
    passportIds === null
      ? []
      : sql<{ chainId: string; number: number }[]>`
          SELECT chain_id AS "chainId", number FROM chains WHERE chain_id = ANY(${[...passportIds]}::text[])`,
  ]);
  const numberOf = (each: string | null) => (each === null ? null : (names.get(each) ?? null));
  return {
    owner: numberOf(name),
    gate: numberOf(gateId),
    reason: numberOf(reason),
    chains: new Map(chains.map(({ chainId, number }) => [chainId, number])),
  };
}

interface ExaminedRow extends StoredRecord {
  readonly matches: boolean;
  /** Records examined for the page, including this one. */
  readonly examined: number;
}

/**
 * One index walk per requested decision and per reason for which the owner may read a record; each ends when
 * it has filled a page, and the results are merged. However many records exist, it reads only records that
 * could be on the page (test/api/attestation-lists.test.ts counts them), unless a filter has no index. Then
 * the walks examine records one by one and also return the last examined one, matching or not: the next page
 * begins there.
 *
 * A walk has exactly the conditions of its index, or PostgreSQL might choose an index along which it finds
 * nothing for long. The owner's right to read each result is checked again at the end.
 */
export function pageQuery(
  sql: Database | Transaction,
  owner: Owner,
  query: PageQuery,
  asked: NumbersAsked,
): PendingQuery<ExaminedRow[]> {
  const { limit, after, sinceMs, untilMs, examinedMax } = query;
  const matches = matchesOf(sql, owner, query, asked);
  const inOrder = sql`ORDER BY place DESC, position DESC`;
  const walkedMax = matches === null ? limit : examinedMax;
  // An index orders records of one place arbitrarily, so a walk includes all of its last place.
  const walked = sql`ORDER BY place DESC FETCH FIRST ${walkedMax} ROWS WITH TIES`;
  const narrowed = sql`
    ${sinceMs === null ? sql`` : sql`AND record_place(timestamp_ms, position) >= ${firstPlace(sql, sinceMs)} AND position >= records_from(${cappedMs(sinceMs)})`}
    ${untilMs === null ? sql`` : sql`AND record_place(timestamp_ms, position) < ${firstPlace(sql, untilMs)}`}
    ${after === null ? sql`` : sql`AND (record_place(timestamp_ms, position), position) < (${placeOf(sql, after)}, ${after.position})`}`;
  const walks = waysOf(sql, owner, query, asked).flatMap((way) =>
    decisionsOf(query).map(
      (decision) =>
        sql`(SELECT *, record_place(timestamp_ms, position) AS place FROM records WHERE ${way} AND decision = ${letterOf[decision]} ${narrowed} ${walked})`,
    ),
  );
  const found = sql`(${walks.reduce((all, walk) => sql`${all} UNION ALL ${walk}`)}) AS found`;
  const isReadable = sql`(${isReader(sql, asked)} OR ${isOtherReader(sql, asked)})`;
  return matches === null
    ? sql<ExaminedRow[]>`
        SELECT ${sql(recordColumns)}, true AS matches, 0 AS examined FROM ${found}
        WHERE ${isReadable} ${inOrder} LIMIT ${limit}`
    : sql<ExaminedRow[]>`
        SELECT ${sql(recordColumns)}, matches, examined FROM (
          SELECT *, ${matches} AS matches, row_number() OVER (${inOrder}) AS examined FROM ${found} ${inOrder} LIMIT ${walkedMax}
        ) AS examined
        WHERE (matches OR examined = ${examinedMax}) AND ${isReadable} ${inOrder} LIMIT ${limit}`;
}

/** Later times do not fit in 63 bits; none occur before the year 2248. */
const placedMsMax = 2 ** 43 - 1;

/** Not after the place of any record of that time or later. */
const firstPlace = (sql: Database | Transaction, timeMs: UnixMillis) =>
  placeOf(sql, { timestampMs: cappedMs(timeMs), position: 0 });

const cappedMs = (timeMs: UnixMillis) => Math.min(timeMs, placedMsMax) as UnixMillis;

/** Matches the SQL function of that name (0028). */
const placeOf = (sql: Database | Transaction, { timestampMs, position }: Place) =>
  sql`record_place(${timestampMs}::bigint, ${position}::bigint)`;

/** Only a PERMIT has no reason, and a SUSPEND has a single one. */
function decisionsOf({ decision, reason, outcome }: AttestationFilter): readonly Outcome[] {
  if (decision === null && outcome !== undefined) return ['PERMIT'];
  if (decision !== null) return [decision];
  if (reason === null) return outcomes;
  return reason === 'approval_required' ? ['SUSPEND', 'BLOCK'] : ['BLOCK'];
}

/** The filters without an index; null: none. */
function matchesOf(
  sql: Database | Transaction,
  { accountId, mode }: Owner,
  { passportIds, agentId, reason, permissionKey, outcome }: PageQuery,
  asked: NumbersAsked,
) {
  const ofPermit = sql`SELECT FROM permit_outcomes o WHERE o.attestation_id = id_of_uuid('att', found.attestation_id)`;
  const hasOutcome =
    outcome === 'missing'
      ? sql`NOT EXISTS (${ofPermit} AND o.outcome IS NOT NULL)`
      : sql`EXISTS (${ofPermit} AND o.outcome = ${outcome ?? null})`;
  const ofAgent = sql`EXISTS (
    SELECT FROM passports p WHERE p.passport_id = (SELECT chain_id FROM chains WHERE number = found.chain)
      AND p.account_id = ${accountId} AND p.mode = ${mode} AND p.agent_id = ${agentId})`;
  const conditions = [
    ...(agentId === null || passportIds !== null ? [] : [ofAgent]),
    ...(reason === null ? [] : [sql`coalesce(reason = ${asked.reason}::int, false)`]),
    ...(outcome === undefined
      ? []
      : [sql`(decision = 'P' AND resolution IS NULL AND NOT test AND ${hasOutcome})`]),
    ...(permissionKey === null ? [] : [sql`permission_key IS NOT DISTINCT FROM ${permissionKey}`]),
  ];
  return conditions.length === 0 ? null : conditions.reduce((all, each) => sql`${all} AND ${each}`);
}

/**
 * The reasons for which the owner may read matching records. They do not overlap, because the two readers of
 * a record differ. A passport or gate has one owner, who reads all of its records and walks along them; any
 * other account walks along those it may read for another reason.
 */
function waysOf(
  sql: Database | Transaction,
  owner: Owner,
  { passportIds, agentId, gateId }: PageQuery,
  asked: NumbersAsked,
) {
  const reader = isReader(sql, asked);
  const otherReader = isOtherReader(sql, asked);
  const ofGate = sql`gate = ${asked.gate}`;
  const { accountId, mode } = owner;
  const ownsGate = sql`EXISTS (
    SELECT FROM gates WHERE gate_id = ${gateId} AND account_id = ${accountId} AND mode = ${mode})`;
  if (passportIds !== null) {
    return passportIds.flatMap((passportId) => {
      const ownsPassport = sql`EXISTS (
        SELECT FROM passports WHERE passport_id = ${passportId} AND account_id = ${accountId} AND mode = ${mode})`;
      const ofPassport = sql`chain = ${asked.chains.get(passportId) ?? null}`;
      if (gateId !== null) return [sql`${ofPassport} AND ${ofGate} AND (${ownsPassport} OR ${ownsGate})`];
      const own = sql`${ofPassport} AND ${ownsPassport}`;
      return agentId !== null ? [own] : [own, sql`${otherReader} AND ${ofPassport}`];
    });
  }
  if (gateId !== null) {
    return [sql`${ofGate} AND ${ownsGate}`, sql`${reader} AND other_reader IS NOT NULL AND ${ofGate}`];
  }
  return agentId !== null ? [reader] : [reader, otherReader];
}

/**
 * A record that the owner may read, or that an answer to the owner named: `/enforce` without a gate records
 * in the chain of a passport that may belong to another account (contract §5). Null for an unknown id.
 */
export async function findAttestation(
  sql: Database | Transaction,
  owner: Owner,
  attestationId: AttestationId,
): Promise<Attestation | null> {
  const row = await findRow(sql, owner, attestationId);
  const [attestation] = row === null ? [] : await attestationsOf(sql, [row]);
  return attestation ?? null;
}

/** The place of such a record. */
export async function findPlace(
  sql: Database | Transaction,
  owner: Owner,
  attestationId: AttestationId,
): Promise<Place | null> {
  const row = await findRow(sql, owner, attestationId);
  return row === null ? null : { timestampMs: row.timestamp_ms, position: row.position };
}

async function findRow(
  sql: Database | Transaction,
  owner: Owner,
  attestationId: AttestationId,
): Promise<StoredRecord | null> {
  const asked = await numbersAsked(sql, owner, { passportIds: null, gateId: null, reason: null });
  const [row] = await sql<StoredRecord[]>`
    SELECT ${sql(recordColumns)} FROM records
    WHERE attestation_id = ${uuidOfId(attestationId)} AND position >= records_from(${timeOfId(attestationId)})
      AND (${isReader(sql, asked)} OR ${isOtherReader(sql, asked)} OR ${isSource(sql, owner)})`;
  return row ?? null;
}

const isReader = (sql: Database | Transaction, { owner }: NumbersAsked) => sql`reader = ${owner}`;

const isOtherReader = (sql: Database | Transaction, { owner }: NumbersAsked) => sql`other_reader = ${owner}`;

/** The mode is that of the passport, whose owner is the reader, unless the BLOCK was for a wrong mode. */
const isSource = (sql: Database | Transaction, { accountId, mode }: Owner) => {
  const nameOf = (column: 'reader' | 'reason') =>
    sql`(SELECT name FROM record_names WHERE number = records.${sql(column)})`;
  return sql`(source_account = (SELECT number FROM record_names WHERE name = ${accountId}) AND gate IS NULL
    AND (split_part(${nameOf('reader')}, ' ', 2) = ${mode}) <> (${nameOf('reason')} IS NOT DISTINCT FROM 'mode_mismatch'))`;
};
