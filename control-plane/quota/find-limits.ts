import { compileRateWindows, compileSpendWindows } from '../../shared/decision/compile-windows.ts';
import type { AccountId, GateId, PassportId, StandingApprovalId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { WindowLimit } from '../../shared/quota/window-limit.ts';
import type { LeaseCounter, LeaseRequest } from '../../shared/wire/sync/lease-call.ts';
import type { Transaction } from '../base/database.ts';
import { isShown, type ShownPassport, shownTo } from '../issuers/shown-passport-store.ts';
import { distinct } from '../storage/distinct.ts';
import { tryStoredConstraints } from '../storage/stored-constraints.ts';
import { together } from '../storage/together.ts';
import { type FoundLimit, findLanes } from './find-lanes.ts';

/**
 * The currently configured limits for these asks, in the order of the asks; limits named by the sidecar are
 * ignored. Null: the limit does not exist (any more), or the account may not draw on it. An account may draw
 * on its own gates and their standing approvals, and on any passport whose token the ask shows to have been
 * seen. A standing approval that is not in force has a limit of 0: a person is asked then. The rows are not
 * locked: a concurrent change takes effect after the call.
 */
export async function findLimits(
  tx: Transaction,
  accountId: AccountId,
  asks: readonly LeaseRequest[],
  nowMs: UnixMillis,
): Promise<readonly (FoundLimit | null)[]> {
  const [gates, passports, standing, lanes] = await together([
    () => findGateLimits(tx, accountId, asks),
    () => findPassports(tx, asks),
    () => findStandingApprovals(tx, accountId, asks, nowMs),
    () => findLanes(tx, accountId, asks, nowMs),
  ]);
  return asks.map((ask) => {
    if (ask.standing_approval_id !== undefined) {
      const found = standing.get(ask.standing_approval_id);
      return found?.gateId === ask.gate_id ? found : { limit: 0, endsAtMs: null };
    }
    if (ask.wallet !== undefined) return lanes.get(ask) ?? null;
    const passport = ask.passport_id === null ? null : passports.get(ask.passport_id);
    if (passport === undefined) return null;
    if (passport !== null && !isShown(passport, ask.token_hash, accountId)) return null;
    const configured = ask.gate_id === null ? passport?.limits : gates.get(ask.gate_id);
    const limit = configured?.find(
      (each) => each.kind === ask.kind && each.window === ask.window && isCountedSo(each, ask),
    );
    return limit === undefined ? null : { limit: limit.limit, endsAtMs: null };
  });
}

/** A passport without a user counts by itself where others count by theirs. */
function isCountedSo({ per }: WindowLimit, { passport_id: passportId, user }: LeaseRequest): boolean {
  if (user !== undefined) return per === 'user';
  return passportId === null ? per === 'gate' : per !== 'gate';
}

async function findStandingApprovals(
  tx: Transaction,
  accountId: AccountId,
  asks: readonly LeaseCounter[],
  nowMs: UnixMillis,
): Promise<ReadonlyMap<StandingApprovalId, FoundLimit & { readonly gateId: GateId }>> {
  const ids = distinct(asks.map(({ standing_approval_id: id }) => id ?? null));
  if (ids.length === 0) return new Map();
  const rows = await tx<(FoundLimit & { id: StandingApprovalId; gateId: GateId })[]>`
    SELECT standing_approval_id AS id, gate_id AS "gateId", total_micro_usd AS limit, expires_at_ms AS "endsAtMs"
    FROM standing_approvals WHERE standing_approval_id = ANY(${ids}::text[]) AND account_id = ${accountId}
      AND ended_at_ms IS NULL AND expires_at_ms > ${nowMs}`;
  return new Map(rows.map(({ id, ...found }) => [id, found]));
}

async function findGateLimits(
  tx: Transaction,
  accountId: AccountId,
  asks: readonly LeaseCounter[],
): Promise<ReadonlyMap<GateId, readonly WindowLimit[]>> {
  const gateIds = distinct(asks.map(({ gate_id }) => gate_id));
  if (gateIds.length === 0) return new Map();
  const rows = await tx<{ gateId: GateId; constraints: unknown }[]>`
    SELECT gate_id AS "gateId", constraints FROM gates
    WHERE gate_id = ANY(${gateIds}::text[]) AND account_id = ${accountId} AND deleted_at_ms IS NULL`;
  return new Map(rows.map(({ gateId, constraints }) => [gateId, windowLimits(constraints, 'gate')]));
}

interface PassportLimits extends ShownPassport {
  readonly limits: readonly WindowLimit[];
}

async function findPassports(
  tx: Transaction,
  asks: readonly LeaseCounter[],
): Promise<ReadonlyMap<PassportId, PassportLimits>> {
  const passportIds = distinct(asks.map(({ passport_id }) => passport_id));
  if (passportIds.length === 0) return new Map();
  const rows = await tx<(ShownPassport & { passportId: PassportId; constraints: unknown })[]>`
    SELECT passport_id AS "passportId", account_id AS "accountId", token_hash AS "tokenHash", constraints,
      ${shownTo(tx, 'passports')} AS "shownTo" FROM passports
    WHERE passport_id = ANY(${passportIds}::text[])`;
  return new Map(
    rows.map(({ passportId, constraints, ...shown }) => [
      passportId,
      { ...shown, limits: windowLimits(constraints, 'passport') },
    ]),
  );
}

/** An unreadable row lends nothing; it does not affect the other asks of the call. */
function windowLimits(stored: unknown, of: 'gate' | 'passport'): readonly WindowLimit[] {
  const read = tryStoredConstraints(stored, of);
  if (read === null) return [];
  return [...compileRateWindows(read.rateLimits, of), ...compileSpendWindows(read.spendLimits, of)];
}
