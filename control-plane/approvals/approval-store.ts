import type { ShadowVerdict } from '../../shared/decision/shadow.ts';
import { must } from '../../shared/errors/assert.ts';
import type { Approval, ApprovalStatus, PresentedApproval } from '../../shared/model/approval.ts';
import type { PiiFinding } from '../../shared/model/attestation.ts';
import type { CheckName } from '../../shared/model/decision.ts';
import {
  type AccountId,
  type ApprovalId,
  type AttestationId,
  type GateId,
  idTime,
  type PassportId,
  type UserId,
} from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Mode } from '../../shared/model/mode.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Page, PagePlace } from '../../shared/wire/api/paging.ts';
import type { Database, Transaction } from '../base/database.ts';
import type { HeldUnits } from '../book/held-units.ts';
import { noteHints } from '../events/note-hints.ts';
import { databaseNowMs } from '../storage/database-clock.ts';
import { readPage } from '../storage/read-page.ts';
import { isUniqueViolation } from '../storage/unique-violation.ts';
import { userOfApproval } from '../storage/user-of-approval.ts';
import { withAnswers, withOwnAnswers } from './answer-store.ts';
import { approvalsLimits } from './limits.ts';
import { type Answerer, waitsForAnswerOf } from './waits-for.ts';

/** An approval with the facts for its records, and its holds. */
export interface StoredApproval extends Approval {
  readonly constraintsEvaluated: readonly CheckName[];
  readonly pii: readonly PiiFinding[];
  readonly passportAccountId: AccountId;
  readonly passportMode: Mode;
  readonly gateAccountId: AccountId;
  readonly gateMode: Mode;
  readonly expiresInMs: number;
  readonly holds: readonly HeldUnits[];
  /** People who do not answer where the gate wants others to. Null: not known, or the gate wants none. */
  readonly requesters: readonly UserId[] | null;
  /** The first request named its passport without the token. */
  readonly isAsserted: boolean;
  /** What the shadow of its gate said to the first request; null: there was none. */
  readonly shadow: ShadowVerdict | null;
  /** See ApprovalBinding. */
  readonly tokenUser: string;
}

/** An approval without the answers of people, which lie in a table of their own. */
export type ApprovalRow = Omit<StoredApproval, 'answers'>;

/** An approval that a person has approved or denied. */
export interface Resolved extends StoredApproval {
  readonly status: 'approved' | 'denied';
}

/** The request that an approval is bound to (contract §8). */
export interface ApprovalBinding {
  readonly passportId: PassportId;
  readonly gateId: GateId;
  /** `Gate.policyVersion`. */
  readonly gateVersion: number;
  readonly requestHash: string;
  /** For whom the token says that its agent acts; empty: nobody, or it is a passport of this service. */
  readonly tokenUser: string;
}

/** The state of a presented approval, as seen by the request that presents it. */
export interface FoundApproval {
  readonly state: Exclude<PresentedApproval, 'none' | 'unasked'>;
  /** Null for `mismatch`. */
  readonly expiresAtMs: UnixMillis | null;
}

const columns = (sql: Database | Transaction) => sql`
  approval_id AS "approvalId", status, passport_id AS "passportId", agent_id AS "agentId", gate_id AS "gateId",
  gate_version AS "gateVersion", request_hash AS "requestHash", permission_key AS "permissionKey",
  amount_micro_usd AS "amountMicroUsd", display, created_at_ms AS "createdAtMs", expires_at_ms AS "expiresAtMs",
  resolved_at_ms AS "resolvedAtMs", resolved_by AS "resolvedBy", note,
  constraints_evaluated AS "constraintsEvaluated", pii, passport_account_id AS "passportAccountId",
  passport_mode AS "passportMode", gate_account_id AS "gateAccountId", gate_mode AS "gateMode",
  expires_in_ms AS "expiresInMs", holds, requesters, asserted AS "isAsserted", shadow, conditions,
  token_user AS "tokenUser", ${userOfApproval(sql, 'approvals')} AS "user"`;

/** `userOfApproval` of one that is about to be opened. */
export async function findUser(
  tx: Transaction,
  {
    passport,
    gate,
    tokenUser,
  }: Record<'passport' | 'gate', Pick<Owner, 'accountId'>> & {
    readonly passport: { readonly passportId: PassportId };
    readonly tokenUser: string;
  },
): Promise<string | null> {
  if (passport.accountId !== gate.accountId) return null;
  if (tokenUser !== '') return tokenUser;
  const [row] = await tx<{ user: string | null }[]>`
    SELECT for_user AS "user" FROM passports WHERE passport_id = ${passport.passportId}`;
  return row?.user ?? null;
}

const isBoundTo = (sql: Database | Transaction, to: ApprovalBinding) => sql`
  passport_id = ${to.passportId} AND gate_id = ${to.gateId} AND gate_version = ${to.gateVersion}
  AND request_hash = ${to.requestHash} AND token_user = ${to.tokenUser}`;

/** Whether its time is over at that moment: reads compute expiry, which is written a little later. */
const isOver = (
  { status, expiresAtMs }: Pick<Approval, 'status' | 'expiresAtMs'>,
  nowMs: UnixMillis,
): boolean => (status === 'pending' || status === 'approved') && nowMs >= expiresAtMs;

/** The approval as of that moment. */
export const approvalAt = <A extends Pick<Approval, 'status' | 'expiresAtMs'>>(
  approval: A,
  nowMs: UnixMillis,
): A => (isOver(approval, nowMs) ? { ...approval, status: 'expired' } : approval);

/** The amounts of approvals, which never change. Unknown ones are left out. */
export async function readAmounts(
  tx: Transaction,
  ids: readonly ApprovalId[],
): Promise<ReadonlyMap<ApprovalId, number | null>> {
  if (ids.length === 0) return new Map();
  const rows = await tx<{ id: ApprovalId; amount: number | null }[]>`
    SELECT approval_id AS id, amount_micro_usd AS amount FROM approvals WHERE approval_id = ANY(${[...ids]}::text[])`;
  return new Map(rows.map(({ id, amount }) => [id, amount]));
}

/**
 * False: the id exists, or the same request has a pending approval. Waits for a concurrent insert of either.
 */
export async function insertApproval(
  tx: Transaction,
  approval: Omit<StoredApproval, 'user'>,
): Promise<boolean> {
  const inserted = await tx`
    INSERT INTO approvals (
      approval_id, status, passport_id, agent_id, gate_id, gate_version, request_hash, permission_key,
      amount_micro_usd, constraints_evaluated, pii, passport_account_id, passport_mode, gate_account_id, gate_mode,
      created_at_ms, expires_in_ms, expires_at_ms, holds, due_at_ms, display, requesters, asserted, shadow, conditions,
      token_user)
    VALUES (
      ${approval.approvalId}, ${approval.status}, ${approval.passportId}, ${approval.agentId}, ${approval.gateId},
      ${approval.gateVersion}, ${approval.requestHash}, ${approval.permissionKey}, ${approval.amountMicroUsd},
      ${[...approval.constraintsEvaluated]}::text[], ${JSON.stringify(approval.pii)}::text::jsonb,
      ${approval.passportAccountId}, ${approval.passportMode}, ${approval.gateAccountId}, ${approval.gateMode},
      ${approval.createdAtMs}, ${approval.expiresInMs}, ${approval.expiresAtMs},
      ${JSON.stringify(approval.holds)}::text::jsonb, ${approval.expiresAtMs},
      ${approval.display === null ? null : JSON.stringify(approval.display)}::text::jsonb,
      ${approval.requesters === null ? null : [...approval.requesters]}::text[], ${approval.isAsserted},
      ${approval.shadow === null ? null : JSON.stringify(approval.shadow)}::text::json,
      ${approval.conditions === null ? null : [...approval.conditions]}::text[], ${approval.tokenUser})
    ON CONFLICT DO NOTHING`;
  return inserted.count === 1;
}

/** Only for one that this transaction inserted: no other transaction has seen it. */
export async function deleteApproval(tx: Transaction, approvalId: ApprovalId): Promise<void> {
  await tx`DELETE FROM approvals WHERE approval_id = ${approvalId}`;
}

/** Null: no approval of this id for this request. */
export async function findBoundApproval(
  tx: Transaction,
  approvalId: ApprovalId,
  binding: ApprovalBinding,
): Promise<ApprovalRow | null> {
  const [row] = await tx<ApprovalRow[]>`
    SELECT ${columns(tx)} FROM approvals WHERE approval_id = ${approvalId} AND ${isBoundTo(tx, binding)}`;
  return row ?? null;
}

/** Pending approvals of the passport at the gate at that moment. */
export async function countPending(
  tx: Transaction,
  { passportId, gateId }: Pick<ApprovalBinding, 'passportId' | 'gateId'>,
  nowMs: UnixMillis,
): Promise<number> {
  const [row] = await tx<{ pending: number }[]>`
    SELECT count(*) AS pending FROM approvals
    WHERE status = 'pending' AND passport_id = ${passportId} AND gate_id = ${gateId} AND expires_at_ms > ${nowMs}`;
  return must(row, 'a count has a row').pending;
}

/** As last written: it may have expired since. */
export async function findPendingApproval(
  tx: Transaction,
  binding: ApprovalBinding,
): Promise<ApprovalRow | null> {
  const [row] = await tx<ApprovalRow[]>`
    SELECT ${columns(tx)} FROM approvals WHERE status = 'pending' AND ${isBoundTo(tx, binding)}`;
  return row ?? null;
}

/** For many requests, unordered. As last written: each may have expired since. */
export async function findPendingIds(
  tx: Transaction,
  of: readonly ApprovalBinding[],
): Promise<readonly ApprovalId[]> {
  if (of.length === 0) return [];
  const rows = await tx<{ approvalId: ApprovalId }[]>`
    SELECT approval_id AS "approvalId" FROM approvals JOIN unnest(
      ${of.map(({ passportId }) => passportId)}::text[],
      ${of.map(({ gateId }) => gateId)}::text[],
      ${of.map(({ gateVersion }) => gateVersion)}::bigint[],
      ${of.map(({ requestHash }) => requestHash)}::text[],
      ${of.map(({ tokenUser }) => tokenUser)}::text[]
    ) AS b (passport_id, gate_id, gate_version, request_hash, token_user)
      USING (passport_id, gate_id, gate_version, request_hash, token_user)
    WHERE status = 'pending'`;
  return rows.map(({ approvalId }) => approvalId);
}

/**
 * The state of the approval that a request presents. `mismatch`: unknown id, or an approval of another
 * passport, gate, policy version or request; which one is not disclosed.
 */
export async function readPresentedApproval(
  sql: Database | Transaction,
  approvalId: ApprovalId,
  binding: ApprovalBinding,
  nowMs: UnixMillis,
): Promise<FoundApproval> {
  const { state, expiresAtMs } = await readUse(sql, approvalId, binding, nowMs);
  return { state, expiresAtMs };
}

/** The state, and the PERMIT that used the approval; null if none. */
export async function readUse(
  sql: Database | Transaction,
  approvalId: ApprovalId,
  binding: ApprovalBinding,
  nowMs: UnixMillis,
): Promise<FoundApproval & { readonly attestationId: AttestationId | null }> {
  const [row] = await sql<
    (Pick<Approval, 'status' | 'expiresAtMs'> & { readonly attestationId: AttestationId | null })[]
  >`
    SELECT status, expires_at_ms AS "expiresAtMs", attestation_id AS "attestationId" FROM approvals
    WHERE approval_id = ${approvalId} AND ${isBoundTo(sql, binding)}`;
  if (row === undefined) return { state: 'mismatch', expiresAtMs: null, attestationId: null };
  const { expiresAtMs, attestationId } = row;
  return { state: approvalAt(row, nowMs).status, expiresAtMs, attestationId };
}

/**
 * Locks an approval of the owner's gates until the transaction ends. As last written, with the answers that
 * stand once it is locked.
 */
export async function lockApproval(
  tx: Transaction,
  owner: Owner,
  approvalId: ApprovalId,
): Promise<StoredApproval | null> {
  const [row] = await tx<ApprovalRow[]>`
    SELECT ${columns(tx)} FROM approvals
    WHERE approval_id = ${approvalId} AND gate_account_id = ${owner.accountId} AND gate_mode = ${owner.mode}
    FOR UPDATE`;
  return row === undefined ? null : withOwnAnswers(tx, row);
}

/** Writes a person's resolution. The row must be locked and pending. */
export async function writeResolution(tx: Transaction, resolved: Resolved): Promise<void> {
  await tx`
    UPDATE approvals SET status = ${resolved.status}, expires_at_ms = ${resolved.expiresAtMs},
      due_at_ms = ${resolved.status === 'approved' ? resolved.expiresAtMs : null},
      resolved_at_ms = ${resolved.resolvedAtMs}, resolved_by = ${resolved.resolvedBy}, note = ${resolved.note}
    WHERE approval_id = ${resolved.approvalId}`;
}

/**
 * Makes it pending again. The row must be locked. False: the same request has another pending approval;
 * nothing was changed. Where that one was committed only now, the transaction has failed and has to end.
 */
export async function writeUndone(tx: Transaction, undone: StoredApproval): Promise<boolean> {
  const written = await tx`
    UPDATE approvals SET status = 'pending', expires_at_ms = ${undone.expiresAtMs}, due_at_ms = ${undone.expiresAtMs},
      resolved_at_ms = NULL, resolved_by = NULL, note = NULL
    WHERE approval_id = ${undone.approvalId} AND NOT EXISTS (
      SELECT FROM approvals WHERE status = 'pending' AND ${isBoundTo(tx, undone)})`.catch(
    (error: unknown) => {
      if (isUniqueViolation(error, /^approvals_one_pending$/)) return { count: 0 };
      throw error;
    },
  );
  return written.count === 1;
}

/** False: not approved, not for this request, or expired; nothing was changed. */
export async function writeUse(
  tx: Transaction,
  approvalId: ApprovalId,
  binding: ApprovalBinding,
  use: { readonly attestationId: AttestationId; readonly nowMs: UnixMillis },
): Promise<boolean> {
  const used = await tx<Owner[]>`
    UPDATE approvals SET status = 'used', attestation_id = ${use.attestationId}, due_at_ms = NULL
    WHERE approval_id = ${approvalId} AND ${isBoundTo(tx, binding)}
      AND status = 'approved' AND expires_at_ms > ${use.nowMs}
    RETURNING gate_account_id AS "accountId", gate_mode AS mode`;
  noteHints(
    tx,
    used.map(({ accountId, mode }) => ({ accountId, mode, type: 'approval', id: approvalId })),
  );
  return used.count === 1;
}

/** For approvals whose PERMITs were voided: they can be used again until they expire. */
export async function unuseApprovals(tx: Transaction, permits: readonly AttestationId[]): Promise<void> {
  if (permits.length === 0) return;
  await tx`
    UPDATE approvals SET status = 'approved', attestation_id = NULL, due_at_ms = expires_at_ms
    WHERE approval_id = ANY (ARRAY(
      SELECT approval_id FROM approvals WHERE attestation_id = ANY(${[...permits]}::text[]) AND status = 'used'
      ORDER BY approval_id COLLATE "C" FOR UPDATE))`;
}

/** Ends the unresolved ones for good. The caller handles their records, events and money. */
export async function writeWithdrawn(
  tx: Transaction,
  approvalIds: readonly ApprovalId[],
): Promise<readonly StoredApproval[]> {
  const rows = await tx<ApprovalRow[]>`
    UPDATE approvals SET status = 'expired', due_at_ms = NULL
    WHERE approval_id = ANY (ARRAY(
      SELECT approval_id FROM approvals WHERE approval_id = ANY(${[...approvalIds]}::text[]) AND status = 'pending'
      ORDER BY approval_id COLLATE "C" FOR UPDATE))
    RETURNING ${columns(tx)}`;
  return withAnswers(tx, rows);
}

/** Makes room for a new approval of the same request. The other effects of the expiry are still due. */
export async function writeOverdue(
  tx: Transaction,
  approvalId: ApprovalId,
  nowMs: UnixMillis,
): Promise<void> {
  await tx`
    UPDATE approvals SET status = 'expired'
    WHERE approval_id = ${approvalId} AND status = 'pending' AND expires_at_ms <= ${nowMs}`;
}

/**
 * Locks at most `max` expired, unprocessed approvals until the transaction ends; skips those locked by
 * another transaction. `only`: this one only.
 */
export async function lockDueApprovals(
  tx: Transaction,
  {
    nowMs,
    only,
    max,
  }: { readonly nowMs: UnixMillis; readonly only: ApprovalId | null; readonly max: number },
): Promise<readonly StoredApproval[]> {
  const rows = await tx<ApprovalRow[]>`
    SELECT ${columns(tx)} FROM approvals WHERE due_at_ms <= ${nowMs}
      ${only === null ? tx`` : tx`AND approval_id = ${only}`}
    ORDER BY due_at_ms LIMIT ${max} FOR UPDATE SKIP LOCKED`;
  return withAnswers(tx, rows);
}

/** Like `lockDueApprovals`, without locks, and including those locked by another transaction. */
export async function findDueApprovals(
  sql: Database,
  nowMs: UnixMillis,
  max: number,
): Promise<readonly ApprovalId[]> {
  const rows = await sql<{ approvalId: ApprovalId }[]>`
    SELECT approval_id AS "approvalId" FROM approvals WHERE due_at_ms <= ${nowMs} ORDER BY due_at_ms LIMIT ${max}`;
  return rows.map(({ approvalId }) => approvalId);
}

/**
 * Writes its expiry, and postpones the processing by `approvalsLimits.approvalPutOffMs`. Waits for no lock.
 */
export async function putOff(sql: Database, approvalId: ApprovalId, nowMs: UnixMillis): Promise<void> {
  await sql`
    UPDATE approvals SET status = 'expired', due_at_ms = ${nowMs + approvalsLimits.approvalPutOffMs}
    WHERE approval_id = (
      SELECT approval_id FROM approvals WHERE approval_id = ${approvalId} AND due_at_ms <= ${nowMs}
      FOR UPDATE SKIP LOCKED)`;
}

/**
 * Ends the gate's pending and approved ones bound to an earlier policy version; `null`: all. Their records,
 * events and money are due now. Resolves to their number.
 */
export async function writeVoid(
  tx: Transaction,
  gateId: GateId,
  policyVersion: number | null,
  nowMs: UnixMillis,
): Promise<number> {
  const ended = await tx`
    UPDATE approvals SET status = 'expired', expires_at_ms = least(expires_at_ms, ${nowMs}), due_at_ms = ${nowMs}
    WHERE gate_id = ${gateId} AND status IN ('pending', 'approved')
      ${policyVersion === null ? tx`` : tx`AND gate_version < ${policyVersion}`}`;
  return ended.count;
}

/** Forgets at most `max` displays whose time is over. Resolves to their number. */
export async function forgetDisplays(sql: Database, nowMs: UnixMillis, max: number): Promise<number> {
  const forgotten = await sql`
    UPDATE approvals SET display = NULL WHERE approval_id = ANY (ARRAY(
      SELECT approval_id FROM approvals
      WHERE display IS NOT NULL AND expires_at_ms <= ${nowMs - approvalsLimits.displayKeptMs}
      LIMIT ${max} FOR UPDATE SKIP LOCKED))`;
  return forgotten.count;
}

/**
 * Removes at most `max` approvals that ended `endedKeptMs` ago, oldest first. Resolves to their number. Found
 * by their ids, which begin with the time of the opening: each waits for its answer, and then for its use, as
 * long as an approval may. Signed answers are evidence, and their approvals stay.
 */
export async function removeEnded(sql: Database, nowMs: UnixMillis, max: number): Promise<number> {
  const openedMs = nowMs - approvalsLimits.endedKeptMs - 2 * limits.approvalExpiryMsMax;
  const removed = await sql`
    DELETE FROM approvals WHERE approval_id = ANY (ARRAY(
      SELECT approval_id FROM approvals
      WHERE approval_id < ${`appr_${idTime(openedMs as UnixMillis)}`} AND due_at_ms IS NULL
        AND NOT EXISTS (
          SELECT FROM approval_answers a WHERE a.approval_id = approvals.approval_id AND assertion IS NOT NULL)
      ORDER BY approval_id LIMIT ${max} FOR UPDATE SKIP LOCKED))`;
  return removed.count;
}

/** Final: no processing is left. */
export async function writeExpired(tx: Transaction, approvalIds: readonly ApprovalId[]): Promise<void> {
  await tx`
    UPDATE approvals SET status = 'expired', due_at_ms = NULL WHERE approval_id = ANY(${[...approvalIds]}::text[])`;
}

export async function findApproval(
  sql: Database,
  owner: Owner,
  { approvalId, nowMs }: { readonly approvalId: ApprovalId; readonly nowMs: UnixMillis },
): Promise<StoredApproval | null> {
  const [row] = await sql<ApprovalRow[]>`
    SELECT ${columns(sql)} FROM approvals
    WHERE approval_id = ${approvalId} AND gate_account_id = ${owner.accountId} AND gate_mode = ${owner.mode}`;
  return row === undefined ? null : approvalAt(await withOwnAnswers(sql, row), nowMs);
}

/** Approvals of the owner's gates, newest first. */
export async function listApprovals(
  sql: Database,
  owner: Owner,
  {
    status,
    waitsFor,
    user,
    page,
    nowMs,
  }: {
    readonly status: ApprovalStatus | null;
    /** Only those that wait for this caller's answer. Null: all. */
    readonly waitsFor: Answerer | null;
    /** Only those for whom an agent acts. Null: all. */
    readonly user: string | null;
    readonly page: PagePlace;
    readonly nowMs: UnixMillis;
  },
): Promise<Page<Approval>> {
  const where = sql`
    gate_account_id = ${owner.accountId} AND gate_mode = ${owner.mode}
    ${status === null ? sql`` : sql`AND ${hasStatusAt(sql, status, nowMs)}`}
    ${waitsFor === null ? sql`` : sql`AND ${waitsForAnswerOf(sql, waitsFor)}`}
    ${user === null ? sql`` : sql`AND ${userOfApproval(sql, 'approvals')} = ${user}`}`;
  return readPage(page, {
    count: () => sql<{ total: number }[]>`SELECT count(*) AS total FROM approvals WHERE ${where}`,
    rows: async (limit) => {
      const rows = await sql<ApprovalRow[]>`
        SELECT ${columns(sql)} FROM approvals WHERE ${where} ${page.behind === null ? sql`` : sql`AND approval_id < ${page.behind}`}
        ORDER BY approval_id DESC LIMIT ${limit} OFFSET ${page.offset}`;
      return (await withAnswers(sql, rows)).map((row) => approvalAt(row, nowMs));
    },
    idOf: ({ approvalId }) => approvalId,
  });
}

/**
 * `approvalAt` in SQL. The values are literals, so that PostgreSQL can use the partial index of pending ones.
 */
function hasStatusAt(sql: Database, status: ApprovalStatus, nowMs: UnixMillis) {
  switch (status) {
    case 'pending':
      return sql`status = 'pending' AND expires_at_ms > ${nowMs}`;
    case 'approved':
      return sql`status = 'approved' AND expires_at_ms > ${nowMs}`;
    case 'expired':
      return sql`(status = 'expired' OR (status IN ('pending', 'approved') AND expires_at_ms <= ${nowMs}))`;
    default:
      return sql`status = ${status}`;
  }
}

export const dueApprovals = (sql: Database) =>
  sql`SELECT FROM approvals WHERE due_at_ms <= ${databaseNowMs(sql)}`;

/** How often the gate asked a person then. Those that are trimmed are not counted. */
export async function countAsked(
  sql: Database,
  { gateId, accountId, mode }: Owner & { readonly gateId: GateId },
  { fromMs, toMs }: { readonly fromMs: UnixMillis; readonly toMs: UnixMillis },
): Promise<number> {
  const [row] = await sql<{ asked: number }[]>`
    SELECT count(*) AS asked FROM approvals
    WHERE gate_account_id = ${accountId} AND gate_mode = ${mode} AND gate_id = ${gateId}
      AND created_at_ms >= ${fromMs} AND created_at_ms < ${toMs}`;
  return row?.asked ?? 0;
}
