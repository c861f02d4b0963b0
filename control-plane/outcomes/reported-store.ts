import type { ErrorCode } from '../../shared/errors/catalogue.ts';
import type { ServiceOutcome } from '../../shared/model/hold.ts';
import type { AttestationId, OutcomeId, SidecarId } from '../../shared/model/ids.ts';
import type { MicroUsd } from '../../shared/model/money.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { GivenOutcome, ReportedStatus } from '../../shared/wire/api/outcome.ts';
import type { Page, PagePlace } from '../../shared/wire/api/paging.ts';
import type { TakeOutcomes } from '../attestations/ingest-batch.ts';
import type { Database, Transaction } from '../base/database.ts';
import type { BaseDeps } from '../base/deps.ts';
import { CopyRows, copyIn, copyStatement } from '../storage/copy-rows.ts';
import { databaseNowMs } from '../storage/database-clock.ts';
import { noteDue } from '../storage/due-work.ts';
import { readPage } from '../storage/read-page.ts';
import { outcomesLimits } from './limits.ts';

/** An outcome that a sidecar has taken and shipped. */
export interface ReportedOutcome {
  readonly outcomeId: OutcomeId;
  /** The account of the sidecar, and the mode of the key that reported. */
  readonly owner: Owner;
  readonly sidecarId: SidecarId;
  readonly attestationId: AttestationId;
  readonly given: GivenOutcome;
  readonly reportedAtMs: UnixMillis;
  readonly receivedAtMs: UnixMillis;
  /** Null: not applied yet. */
  readonly refusal: { readonly code: ErrorCode; readonly message: string } | null;
}

interface ReportedRow {
  readonly outcomeId: OutcomeId;
  readonly accountId: Owner['accountId'];
  readonly mode: Owner['mode'];
  readonly sidecarId: SidecarId;
  readonly attestationId: AttestationId;
  readonly outcome: ServiceOutcome;
  readonly amountMicroUsd: MicroUsd | null;
  readonly detail: string | null;
  readonly reportedAtMs: UnixMillis;
  readonly receivedAtMs: UnixMillis;
  readonly code: ErrorCode | null;
  readonly message: string | null;
}

const columns = (sql: Database | Transaction) => sql`
  outcome_id AS "outcomeId", account_id AS "accountId", mode, sidecar_id AS "sidecarId",
  attestation_id AS "attestationId", outcome, amount_micro_usd AS "amountMicroUsd", detail,
  reported_at_ms AS "reportedAtMs", received_at_ms AS "receivedAtMs", code, message`;

const ofRow = (row: ReportedRow): ReportedOutcome => ({
  outcomeId: row.outcomeId,
  owner: { accountId: row.accountId, mode: row.mode },
  sidecarId: row.sidecarId,
  attestationId: row.attestationId,
  given: { outcome: row.outcome, amountMicroUsd: row.amountMicroUsd, detail: row.detail },
  reportedAtMs: row.reportedAtMs,
  receivedAtMs: row.receivedAtMs,
  refusal: row.code === null ? null : { code: row.code, message: row.message ?? '' },
});

const copiedColumns = [
  'outcome_id',
  'account_id',
  'mode',
  'sidecar_id',
  'attestation_id',
  'outcome',
  'amount_micro_usd',
  'detail',
  'reported_at_ms',
  'received_at_ms',
  'due_at_ms',
];
const copyReported = copyStatement('reported_outcomes', copiedColumns);
/** Of a typical row. */
const rowBytes = 260;

/** Stores what a batch of a sidecar has brought, to be applied in this order. */
async function insertReported(tx: Transaction, reported: readonly ReportedOutcome[]): Promise<void> {
  if (reported.length === 0) return;
  noteDue(tx, 'outcomes');
  const rows = new CopyRows(reported.length * rowBytes);
  for (const { outcomeId, owner, sidecarId, attestationId, given, reportedAtMs, receivedAtMs } of reported) {
    rows.row(copiedColumns.length);
    rows.text(outcomeId);
    rows.text(owner.accountId);
    rows.text(owner.mode);
    rows.text(sidecarId);
    rows.text(attestationId);
    rows.text(given.outcome);
    if (given.amountMicroUsd === null) rows.null();
    else rows.bigint(given.amountMicroUsd);
    if (given.detail === null) rows.null();
    else rows.text(given.detail);
    rows.bigint(reportedAtMs);
    rows.bigint(receivedAtMs);
    rows.bigint(receivedAtMs);
  }
  await copyIn(tx, copyReported, rows.take());
}

/** Outcomes of a batch of a sidecar, in the form of ingest. */
export const takeShipped =
  ({ random }: Pick<BaseDeps, 'random'>): TakeOutcomes =>
  (tx, outcomes, { source, sourceAccount, nowMs }) =>
    insertReported(
      tx,
      outcomes.map(({ attestationId, given, callerMode, reportedAtMs }) => ({
        outcomeId: random.newId('out', nowMs),
        owner: { accountId: sourceAccount, mode: callerMode },
        sidecarId: source,
        attestationId,
        given,
        reportedAtMs,
        receivedAtMs: nowMs,
        refusal: null,
      })),
    );

/** Those to be applied now, in the order in which they came. `only`: at most this one. */
export async function findDueReported(
  sql: Database | Transaction,
  nowMs: UnixMillis,
  { only, max }: { readonly only: OutcomeId | null; readonly max: number },
): Promise<readonly ReportedOutcome[]> {
  const rows = await sql<ReportedRow[]>`
    SELECT ${columns(sql)} FROM (
      SELECT * FROM reported_outcomes
      WHERE due_at_ms <= ${nowMs} ${only === null ? sql`` : sql`AND outcome_id = ${only}`}
      ORDER BY due_at_ms, place LIMIT ${max}
    ) AS due ORDER BY place`;
  return rows.map(ofRow);
}

export async function putOffReported(sql: Database, id: OutcomeId, untilMs: number): Promise<void> {
  await sql`
    UPDATE reported_outcomes SET due_at_ms = ${untilMs}::bigint WHERE outcome_id = ${id} AND due_at_ms IS NOT NULL`;
}

export async function removeReported(tx: Transaction, ids: readonly OutcomeId[]): Promise<void> {
  if (ids.length === 0) return;
  await tx`DELETE FROM reported_outcomes WHERE outcome_id = ANY(${[...ids]}::text[])`;
}

/** Their PERMITs are not on record yet. The longer one has waited, the later it is looked at again. */
export async function awaitPermits(
  tx: Transaction,
  ids: readonly OutcomeId[],
  nowMs: UnixMillis,
): Promise<void> {
  if (ids.length === 0) return;
  await tx`
    UPDATE reported_outcomes SET due_at_ms = ${nowMs}::bigint
      + least(greatest(${nowMs}::bigint - received_at_ms, ${outcomesLimits.applyIntervalMs}::bigint), ${outcomesLimits.lookAgainMsMax}::bigint)
    WHERE outcome_id = ANY(${[...ids]}::text[])`;
}

export async function refuseReported(tx: Transaction, refused: readonly ReportedOutcome[]): Promise<void> {
  if (refused.length === 0) return;
  await tx`
    UPDATE reported_outcomes r SET due_at_ms = NULL, code = n.code, message = n.message
    FROM unnest(
      ${refused.map(({ outcomeId }) => outcomeId)}::text[],
      ${refused.map(({ refusal }) => refusal?.code ?? null)}::text[],
      ${refused.map(({ refusal }) => refusal?.message ?? null)}::text[]
    ) AS n (outcome_id, code, message)
    WHERE r.outcome_id = n.outcome_id`;
}

export async function trimRefused(sql: Database, nowMs: UnixMillis): Promise<void> {
  await sql`
    DELETE FROM reported_outcomes WHERE outcome_id = ANY (ARRAY(
      SELECT outcome_id FROM reported_outcomes
      WHERE due_at_ms IS NULL AND received_at_ms < ${nowMs - outcomesLimits.refusedKeptMs}::bigint
      ORDER BY received_at_ms LIMIT ${outcomesLimits.rowsPerTrimMax} FOR UPDATE SKIP LOCKED))`;
}

/** Newest first. */
export const listReported = (
  sql: Database,
  { accountId, mode }: Owner,
  { status, page }: { readonly status: ReportedStatus | null; readonly page: PagePlace },
): Promise<Page<ReportedOutcome>> => {
  const ofStatus =
    status === null
      ? sql``
      : status === 'refused'
        ? sql`AND due_at_ms IS NULL`
        : sql`AND due_at_ms IS NOT NULL`;
  const where = sql`account_id = ${accountId} AND mode = ${mode} ${ofStatus}`;
  return readPage(page, {
    count: () => sql<{ total: number }[]>`SELECT count(*) AS total FROM reported_outcomes WHERE ${where}`,
    rows: async (limit) => {
      const rows = await sql<ReportedRow[]>`
        SELECT ${columns(sql)} FROM reported_outcomes
        WHERE ${where} ${page.behind === null ? sql`` : sql`AND outcome_id < ${page.behind}`}
        ORDER BY outcome_id DESC LIMIT ${limit} OFFSET ${page.offset}`;
      return rows.map(ofRow);
    },
    idOf: ({ outcomeId }) => outcomeId,
  });
};

export const dueReported = (sql: Database) =>
  sql`SELECT FROM reported_outcomes WHERE due_at_ms <= ${databaseNowMs(sql)}`;
