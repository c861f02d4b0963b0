import { must } from '../../shared/errors/assert.ts';
import type { GateId, PassportId, StandingApprovalId } from '../../shared/model/ids.ts';
import type { MicroUsd } from '../../shared/model/money.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type {
  StandingApproval,
  StandingApprovalStatus,
  StandingApprovalTerms,
} from '../../shared/model/standing-approval.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { counterKey } from '../../shared/quota/counter.ts';
import type { Page, PagePlace } from '../../shared/wire/api/paging.ts';
import type { CountedStandingApproval } from '../../shared/wire/api/standing-approval.ts';
import type { Database, Transaction } from '../base/database.ts';
import { readUsage } from '../book/read-usage.ts';
import { readPage } from '../storage/read-page.ts';
import { approvalsLimits } from './limits.ts';

/** `usedMicroUsd`: counted for good; null: in the ledger. */
type StandingApprovalRow = StandingApproval & { readonly usedMicroUsd: MicroUsd | null };

const columns = (sql: Database | Transaction) => sql`
  standing_approval_id AS "standingApprovalId", gate_id AS "gateId", gate_version AS "gateVersion",
  passport_id AS "passportId", agent_id AS "agentId", owner, permission_key AS "permissionKey",
  each_micro_usd AS "eachMicroUsd", total_micro_usd AS "totalMicroUsd", note, created_at_ms AS "createdAtMs",
  created_by AS "createdBy", expires_at_ms AS "expiresAtMs", ended_at_ms AS "endedAtMs", ended_by AS "endedBy",
  used_micro_usd AS "usedMicroUsd"`;

/** A change of the gate's policy ends all of them, by a trigger of `gates`. */
const isInForce = (sql: Database | Transaction, nowMs: UnixMillis) =>
  sql`ended_at_ms IS NULL AND expires_at_ms > ${nowMs}`;

/** Those in force at these gates. The rows are not locked. */
export async function findStandingApprovals(
  sql: Database | Transaction,
  gateIds: readonly GateId[],
  nowMs: UnixMillis,
): Promise<ReadonlyMap<GateId, readonly StandingApprovalTerms[]>> {
  if (gateIds.length === 0) return new Map();
  const rows = await sql<(StandingApprovalTerms & { readonly gateId: GateId })[]>`
    SELECT gate_id AS "gateId", standing_approval_id AS "standingApprovalId", passport_id AS "passportId",
      owner, permission_key AS "permissionKey", each_micro_usd AS "eachMicroUsd", total_micro_usd AS "totalMicroUsd",
      expires_at_ms AS "expiresAtMs"
    FROM standing_approvals WHERE gate_id = ANY(${[...gateIds]}::text[]) AND ${isInForce(sql, nowMs)}
    ORDER BY standing_approval_id`;
  const found = new Map<GateId, StandingApprovalTerms[]>();
  for (const { gateId, ...terms } of rows) {
    const ofGate = found.get(gateId);
    if (ofGate === undefined) found.set(gateId, [terms]);
    else ofGate.push(terms);
  }
  return found;
}

/** As above, of one gate. The gate is locked, so that none comes or goes until the transaction ends. */
export const standingApprovalsAt = async (
  tx: Transaction,
  gateId: GateId,
  nowMs: UnixMillis,
): Promise<readonly StandingApprovalTerms[]> =>
  (await findStandingApprovals(tx, [gateId], nowMs)).get(gateId) ?? [];

/**
 * The passport that a standing approval of the owner's gate may be for: of the owner, or one that has asked
 * for an approval there. Null: none of these.
 */
export async function findPassportAtGate(
  tx: Transaction,
  owner: Owner,
  { passportId, gateId }: { readonly passportId: PassportId; readonly gateId: GateId },
): Promise<{ readonly agentId: string; readonly constraints: unknown } | null> {
  const [row] = await tx<{ agentId: string; constraints: unknown }[]>`
    SELECT agent_id AS "agentId", constraints FROM passports p
    WHERE passport_id = ${passportId} AND mode = ${owner.mode} AND (account_id = ${owner.accountId} OR EXISTS (
      SELECT FROM approvals a WHERE a.passport_id = p.passport_id AND a.gate_id = ${gateId}))`;
  return row ?? null;
}

export async function insertStandingApproval(
  tx: Transaction,
  owner: Owner,
  made: StandingApproval,
): Promise<void> {
  await tx`
    INSERT INTO standing_approvals (standing_approval_id, account_id, mode, gate_id, gate_version, passport_id, agent_id,
      owner, permission_key, each_micro_usd, total_micro_usd, note, created_at_ms, created_by, expires_at_ms)
    VALUES (${made.standingApprovalId}, ${owner.accountId}, ${owner.mode}, ${made.gateId}, ${made.gateVersion},
      ${made.passportId}, ${made.agentId}, ${made.owner}, ${made.permissionKey}, ${made.eachMicroUsd}, ${made.totalMicroUsd},
      ${made.note}, ${made.createdAtMs}, ${made.createdBy}, ${made.expiresAtMs})`;
}

export async function countInForce(tx: Transaction, owner: Owner, nowMs: UnixMillis): Promise<number> {
  const [row] = await tx<{ count: number }[]>`
    SELECT count(*) AS count FROM standing_approvals
    WHERE account_id = ${owner.accountId} AND mode = ${owner.mode} AND ${isInForce(tx, nowMs)}`;
  return must(row, 'a count has a row').count;
}

/** As last written. */
export async function findStandingApproval(
  sql: Database | Transaction,
  owner: Owner,
  id: StandingApprovalId,
): Promise<StandingApprovalRow | null> {
  const [row] = await sql<StandingApprovalRow[]>`
    SELECT ${columns(sql)} FROM standing_approvals
    WHERE standing_approval_id = ${id} AND account_id = ${owner.accountId} AND mode = ${owner.mode}`;
  return row ?? null;
}

/** False: it has ended before, or expired; nothing was changed. Its gate is locked. */
export async function writeEnd(
  tx: Transaction,
  id: StandingApprovalId,
  by: { readonly endedAtMs: UnixMillis; readonly endedBy: string },
): Promise<boolean> {
  const ended = await tx`
    UPDATE standing_approvals SET ended_at_ms = ${by.endedAtMs}, ended_by = ${by.endedBy}
    WHERE standing_approval_id = ${id} AND ${isInForce(tx, by.endedAtMs)}`;
  return ended.count === 1;
}

/** Of all accounts. The caller lets sidecars know. */
export async function endAllStandingApprovals(
  tx: Transaction,
  by: { readonly endedAtMs: UnixMillis; readonly endedBy: string },
): Promise<void> {
  await tx`
    UPDATE standing_approvals SET ended_at_ms = ${by.endedAtMs}, ended_by = ${by.endedBy}
    WHERE ${isInForce(tx, by.endedAtMs)}`;
}

/** Those of the owner, newest first. */
export async function listStandingApprovals(
  sql: Database,
  owner: Owner,
  asked: {
    readonly status: StandingApprovalStatus | null;
    readonly gateId: string | null;
    readonly passportId: string | null;
    readonly passportsOf: string | null;
    readonly page: PagePlace;
    readonly nowMs: UnixMillis;
  },
): Promise<Page<CountedStandingApproval>> {
  const { status, gateId, passportId, passportsOf, page, nowMs } = asked;
  const where = sql`
    account_id = ${owner.accountId} AND mode = ${owner.mode}
    ${gateId === null ? sql`` : sql`AND gate_id = ${gateId}`}
    ${passportId === null ? sql`` : sql`AND passport_id = ${passportId}`}
    ${passportsOf === null ? sql`` : sql`AND owner = ${passportsOf}`}
    ${status === null ? sql`` : sql`AND ${hasStatusAt(sql, status, nowMs)}`}`;
  const found = await readPage(page, {
    count: () => sql<{ total: number }[]>`SELECT count(*) AS total FROM standing_approvals WHERE ${where}`,
    rows: (limit) => sql<StandingApprovalRow[]>`
      SELECT ${columns(sql)} FROM standing_approvals WHERE ${where}
        ${page.behind === null ? sql`` : sql`AND standing_approval_id < ${page.behind}`}
      ORDER BY standing_approval_id DESC LIMIT ${limit} OFFSET ${page.offset}`,
    idOf: ({ standingApprovalId }) => standingApprovalId,
  });
  return { ...found, items: await countStandingApprovals(sql, found.items, nowMs) };
}

/** `statusAt` in SQL. */
function hasStatusAt(sql: Database, status: StandingApprovalStatus, nowMs: UnixMillis) {
  switch (status) {
    case 'active':
      return isInForce(sql, nowMs);
    case 'expired':
      return sql`(ended_at_ms >= expires_at_ms OR (ended_at_ms IS NULL AND expires_at_ms <= ${nowMs}))`;
    case 'revoked':
      return sql`ended_at_ms < expires_at_ms AND ended_by IS NOT NULL`;
    case 'policy_changed':
      return sql`ended_at_ms < expires_at_ms AND ended_by IS NULL`;
  }
}

/** With what is used of them now, by the ledger, in the order given. */
export async function countStandingApprovals(
  sql: Database | Transaction,
  rows: readonly StandingApprovalRow[],
  nowMs: UnixMillis,
): Promise<readonly CountedStandingApproval[]> {
  const usages = await readUsage(sql, rows.map(totalOf), nowMs);
  return rows.map((row, place) => {
    const { givenOut, leased } = must(usages[place], 'each window that was asked for is read');
    const used = row.usedMicroUsd ?? ((givenOut - leased) as MicroUsd);
    return {
      ...row,
      status: statusAt(row, nowMs),
      usedMicroUsd: used,
      leasedMicroUsd: (row.usedMicroUsd === null ? leased : 0) as MicroUsd,
    };
  });
}

const totalOf = ({
  gateId,
  standingApprovalId,
}: Pick<StandingApproval, 'gateId' | 'standingApprovalId'>) => ({
  counter: counterKey({ kind: 'standing_approval', gateId, standingApprovalId }),
  window: 'total' as const,
});

function statusAt(
  { endedAtMs, endedBy, expiresAtMs }: StandingApproval,
  nowMs: UnixMillis,
): StandingApprovalStatus {
  if (endedAtMs !== null && endedAtMs < expiresAtMs) return endedBy === null ? 'policy_changed' : 'revoked';
  return endedAtMs !== null || nowMs >= expiresAtMs ? 'expired' : 'active';
}

/**
 * Writes down what was used of expired ones, `standingApprovalCountedAfterMs` after their time, before the
 * ledger forgets it. Resolves to their number, at most `standingApprovalsPerSweepMax`.
 */
export async function closeStandingApprovals(sql: Database, nowMs: UnixMillis): Promise<number> {
  const rows = await sql<StandingApprovalRow[]>`
    SELECT ${columns(sql)} FROM standing_approvals
    WHERE used_micro_usd IS NULL AND expires_at_ms <= ${nowMs - approvalsLimits.standingApprovalCountedAfterMs}
    ORDER BY expires_at_ms LIMIT ${approvalsLimits.standingApprovalsPerSweepMax}`;
  if (rows.length === 0) return 0;
  const counted = await countStandingApprovals(sql, rows, nowMs);
  await sql`
    UPDATE standing_approvals s SET used_micro_usd = c.used, ended_at_ms = coalesce(ended_at_ms, expires_at_ms)
    FROM unnest(
      ${counted.map(({ standingApprovalId }) => standingApprovalId)}::text[],
      ${counted.map(({ usedMicroUsd }) => usedMicroUsd)}::bigint[]
    ) AS c (standing_approval_id, used)
    WHERE s.standing_approval_id = c.standing_approval_id AND s.used_micro_usd IS NULL`;
  return rows.length;
}
