import type { AttestationRecord } from '../../shared/model/attestation.ts';
import type { HoldStatus, ServiceOutcome } from '../../shared/model/hold.ts';
import { type AttestationId, type GateId, makeId, type PassportId } from '../../shared/model/ids.ts';
import type { MicroUsd } from '../../shared/model/money.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { NewRecord } from '../attestations/append-records.ts';
import type { AppendedRecord } from '../attestations/deps.ts';
import type { Database, Transaction } from '../base/database.ts';
import type { HeldUnits } from '../book/held-units.ts';
import { databaseNowMs } from '../storage/database-clock.ts';
import { outcomesLimits } from './limits.ts';
import type { PermitState } from './permit-change.ts';

/** A PERMIT with a hold, an outcome or a refund, or one that was voided. */
export interface StoredPermit extends PermitState {
  readonly attestationId: AttestationId;
  /** Of the gate; without a gate of the passport. */
  readonly owner: Owner;
  readonly gateId: GateId | null;
  readonly passportId: PassportId | null;
  /** Windows that the overrun was taken from. */
  readonly overrunFrom: readonly HeldUnits[];
  /** The last record that refers to the PERMIT. */
  readonly recordId: AttestationId | null;
}

interface PermitRow {
  readonly attestationId: AttestationId;
  readonly accountId: Owner['accountId'];
  readonly mode: Owner['mode'];
  readonly gateId: GateId | null;
  readonly passportId: PassportId | null;
  readonly countsMicroUsd: MicroUsd | null;
  readonly holdMicroUsd: MicroUsd | null;
  readonly holdStatus: HoldStatus | null;
  readonly holdExpiresAtMs: UnixMillis | null;
  readonly outcome: ServiceOutcome | null;
  readonly outcomeMicroUsd: MicroUsd | null;
  readonly detail: string | null;
  readonly reportedAtMs: UnixMillis | null;
  readonly refundedMicroUsd: MicroUsd;
  readonly overrunMicroUsd: MicroUsd;
  readonly overrunFrom: readonly HeldUnits[];
  readonly isVoid: boolean;
  readonly recordId: AttestationId | null;
}

export const permitColumns = (sql: Database | Transaction) => sql`
  attestation_id AS "attestationId", account_id AS "accountId", mode, gate_id AS "gateId", passport_id AS "passportId",
  counts_micro_usd AS "countsMicroUsd", hold_micro_usd AS "holdMicroUsd", hold_status AS "holdStatus",
  hold_expires_at_ms AS "holdExpiresAtMs", outcome, outcome_micro_usd AS "outcomeMicroUsd", detail,
  reported_at_ms AS "reportedAtMs", refunded_micro_usd AS "refundedMicroUsd", overrun_micro_usd AS "overrunMicroUsd",
  overrun_from AS "overrunFrom", is_void AS "isVoid", record_id AS "recordId"`;

export const permitOfRow = (row: PermitRow): StoredPermit => ({
  attestationId: row.attestationId,
  owner: { accountId: row.accountId, mode: row.mode },
  gateId: row.gateId,
  passportId: row.passportId,
  countsMicroUsd: row.countsMicroUsd,
  hold:
    row.holdMicroUsd === null || row.holdStatus === null || row.holdExpiresAtMs === null
      ? null
      : { amountMicroUsd: row.holdMicroUsd, status: row.holdStatus, expiresAtMs: row.holdExpiresAtMs },
  reported:
    row.outcome === null || row.reportedAtMs === null
      ? null
      : {
          outcome: row.outcome,
          amountMicroUsd: row.outcomeMicroUsd,
          detail: row.detail,
          atMs: row.reportedAtMs,
        },
  refundedMicroUsd: row.refundedMicroUsd,
  overrunMicroUsd: row.overrunMicroUsd,
  overrunFrom: row.overrunFrom,
  isVoid: row.isVoid,
  recordId: row.recordId,
});

/** Its row came with its record. */
const isHeld = ({
  decision,
  resolution,
  holdExpiresAtMs,
  amountMicroUsd,
  test,
}: AttestationRecord): boolean =>
  decision === 'PERMIT' &&
  resolution === null &&
  !test &&
  holdExpiresAtMs !== null &&
  amountMicroUsd !== null;

/** Held PERMITs begin as open holds, with their records. */
export async function keepHolds(tx: Transaction, appended: readonly AppendedRecord[]): Promise<void> {
  const held = appended.filter(({ attestation }) => isHeld(attestation));
  if (held.length === 0) return;
  const owners = held.map(({ reader, otherReader }) => otherReader ?? reader);
  const records = held.map(({ attestation }) => attestation);
  await tx`
    INSERT INTO permit_outcomes (attestation_id, account_id, mode, gate_id, passport_id, counts_micro_usd, hold_micro_usd,
      hold_status, hold_expires_at_ms, due_at_ms)
    SELECT id, account_id, mode, gate_id, passport_id, amount, amount, 'open', expires_at_ms, expires_at_ms
    FROM unnest(
      ${records.map(({ id }) => id)}::text[],
      ${owners.map(({ accountId }) => accountId)}::text[],
      ${owners.map(({ mode }) => mode)}::text[],
      ${records.map(({ gateId }) => gateId)}::text[],
      ${records.map(({ passportId }) => passportId)}::text[],
      ${records.map(({ amountMicroUsd }) => amountMicroUsd)}::bigint[],
      ${records.map(({ holdExpiresAtMs }) => holdExpiresAtMs)}::bigint[]
    ) AS new (id, account_id, mode, gate_id, passport_id, amount, expires_at_ms)`;
}

/** Locks the rows of these PERMITs, in the order of their ids. */
export async function lockPermits(
  tx: Transaction,
  ids: readonly AttestationId[],
): Promise<ReadonlyMap<AttestationId, StoredPermit>> {
  if (ids.length === 0) return new Map();
  const rows = await tx<PermitRow[]>`
    SELECT ${permitColumns(tx)} FROM permit_outcomes WHERE attestation_id = ANY(${[...ids]}::text[])
    ORDER BY attestation_id FOR UPDATE`;
  return new Map(rows.map((row) => [row.attestationId, permitOfRow(row)]));
}

/** Makes the rows of PERMITs that have none, for `lockPermits`. `isVoid`: of those that it makes. */
export async function beginPermits(
  tx: Transaction,
  known: readonly NewRecord[],
  isVoid: boolean,
): Promise<void> {
  const permits = known.filter(({ record }) => !isHeld(record));
  if (permits.length === 0) return;
  const owners = permits.map(({ record, passportOwner, gateOwner }) =>
    record.gateId === null ? (passportOwner ?? gateOwner) : gateOwner,
  );
  const records = permits.map(({ record }) => record);
  await tx`
    INSERT INTO permit_outcomes (attestation_id, account_id, mode, gate_id, passport_id, counts_micro_usd, is_void)
    SELECT attestation_id, account_id, mode, gate_id, passport_id, counts_micro_usd, ${isVoid}::boolean FROM unnest(
      ${records.map(({ id }) => id)}::text[],
      ${owners.map(({ accountId }) => accountId)}::text[],
      ${owners.map(({ mode }) => mode)}::text[],
      ${records.map(({ gateId }) => gateId)}::text[],
      ${records.map(({ passportId }) => passportId)}::text[],
      ${records.map(({ amountMicroUsd }) => amountMicroUsd)}::bigint[]
    ) AS new (attestation_id, account_id, mode, gate_id, passport_id, counts_micro_usd)
    ORDER BY attestation_id
    ON CONFLICT (attestation_id) DO NOTHING`;
}

/** The rows are locked. */
export async function writePermits(tx: Transaction, permits: readonly StoredPermit[]): Promise<void> {
  if (permits.length === 0) return;
  const reported = permits.map((each) => each.reported);
  const holds = permits.map(({ hold }) => hold);
  await tx`
    UPDATE permit_outcomes p SET counts_micro_usd = n.counts, hold_status = n.status, hold_expires_at_ms = n.expires_at_ms,
      due_at_ms = CASE WHEN n.status = 'open' THEN n.expires_at_ms END, outcome = n.outcome,
      outcome_micro_usd = n.outcome_micro_usd, detail = n.detail, reported_at_ms = n.reported_at_ms,
      refunded_micro_usd = n.refunded, overrun_micro_usd = n.overrun, overrun_from = n.overrun_from::jsonb,
      is_void = n.is_void = 1, record_id = n.record_id
    FROM unnest(
      ${permits.map(({ attestationId }) => attestationId)}::text[],
      ${permits.map(({ countsMicroUsd }) => countsMicroUsd)}::bigint[],
      ${holds.map((hold) => hold?.status ?? null)}::text[],
      ${holds.map((hold) => hold?.expiresAtMs ?? null)}::bigint[],
      ${reported.map((each) => each?.outcome ?? null)}::text[],
      ${reported.map((each) => each?.amountMicroUsd ?? null)}::bigint[],
      ${reported.map((each) => each?.detail ?? null)}::text[],
      ${reported.map((each) => each?.atMs ?? null)}::bigint[],
      ${permits.map(({ refundedMicroUsd }) => refundedMicroUsd)}::bigint[],
      ${permits.map(({ overrunMicroUsd }) => overrunMicroUsd)}::bigint[],
      ${permits.map(({ overrunFrom }) => JSON.stringify(overrunFrom))}::text[],
      ${permits.map(({ isVoid }) => (isVoid ? 1 : 0))}::int[],
      ${permits.map(({ recordId }) => recordId)}::text[]
    ) AS n (attestation_id, counts, status, expires_at_ms, outcome, outcome_micro_usd, detail, reported_at_ms, refunded,
      overrun, overrun_from, is_void, record_id)
    WHERE p.attestation_id = n.attestation_id`;
}

/** Locks open holds whose time is over; skips those that others have locked. `only`: at most this one. */
export async function lockDueHolds(
  tx: Transaction,
  {
    nowMs,
    only,
    max,
  }: { readonly nowMs: UnixMillis; readonly only: AttestationId | null; readonly max: number },
): Promise<readonly AttestationId[]> {
  const rows = await tx<{ id: AttestationId }[]>`
    SELECT attestation_id AS id FROM permit_outcomes
    WHERE due_at_ms <= ${nowMs} ${only === null ? tx`` : tx`AND attestation_id = ${only}`}
    ORDER BY due_at_ms LIMIT ${max} FOR UPDATE SKIP LOCKED`;
  return rows.map(({ id }) => id);
}

export async function findDueHolds(
  sql: Database,
  nowMs: UnixMillis,
  max: number,
): Promise<readonly AttestationId[]> {
  const rows = await sql<{ id: AttestationId }[]>`
    SELECT attestation_id AS id FROM permit_outcomes WHERE due_at_ms <= ${nowMs} ORDER BY due_at_ms LIMIT ${max}`;
  return rows.map(({ id }) => id);
}

export async function putOffHold(sql: Database, id: AttestationId, untilMs: number): Promise<void> {
  await sql`
    UPDATE permit_outcomes SET due_at_ms = ${untilMs}::bigint WHERE attestation_id = ${id} AND due_at_ms IS NOT NULL`;
}

/** The oldest go first. Ids are in the order of time. */
export async function trimPermits(sql: Database, nowMs: UnixMillis): Promise<void> {
  const before = makeId('att', (nowMs - outcomesLimits.permitsKeptMs) as UnixMillis, new Uint8Array(10));
  await sql`
    DELETE FROM permit_outcomes WHERE attestation_id = ANY (ARRAY(
      SELECT attestation_id FROM permit_outcomes WHERE attestation_id < ${before}
      ORDER BY attestation_id LIMIT ${outcomesLimits.rowsPerTrimMax} FOR UPDATE SKIP LOCKED))`;
}

export const dueHolds = (sql: Database) =>
  sql`SELECT FROM permit_outcomes WHERE due_at_ms <= ${databaseNowMs(sql)}`;
