import { userKeyOf } from '../../shared/crypto/federated-id.ts';
import { demandsApproval } from '../../shared/decision/check-approval.ts';
import { compileApprovals } from '../../shared/decision/compile-approvals.ts';
import { compileSpendWindows } from '../../shared/decision/compile-windows.ts';
import { type DrawnWindow, moneyOf, totalOf, windowsOf } from '../../shared/decision/windows-of.ts';
import type { AttestationRecord } from '../../shared/model/attestation.ts';
import { federatedTokenHash } from '../../shared/model/federation.ts';
import type { IdDigest } from '../../shared/model/id-digest.ts';
import { type GateId, type IssuerId, isId, type PassportId } from '../../shared/model/ids.ts';
import type { MicroUsd } from '../../shared/model/money.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { type CountedFor, partOfGate } from '../../shared/quota/counter.ts';
import { windowAt } from '../../shared/quota/window.ts';
import type { WindowLimit } from '../../shared/quota/window-limit.ts';
import type { Transaction } from '../base/database.ts';
import { findSources } from '../book/find-sources.ts';
import type { HeldUnits, UnitsSource } from '../book/held-units.ts';
import { takeUnits, type WindowAsk } from '../book/take-units.ts';
import { readStoredConstraints } from '../storage/stored-constraints.ts';
import { findWalletPaths } from './wallet-paths.ts';

interface MoreMoney {
  /** The windows that it is taken from. */
  readonly held: (microUsd: number) => readonly HeldUnits[];
  /** Locks quota windows until the commit. False: a limit has no room. */
  readonly take: (tx: Transaction) => Promise<boolean>;
}

/**
 * Money that a PERMIT costs beyond its hold (contract §19): from every limit that a new request of its
 * passport at its gate would draw on now, whole or not at all. A frozen wallet has no room.
 *
 * The whole amount is held against what bounds one request, as at the door: `per_transaction_usd`, the rules
 * that ask a person, and what was approved. A person approved the amount of the hold and no more.
 */
async function find(
  tx: Transaction,
  { gateId, passportId, approvalId, permissionKey }: AttestationRecord,
  {
    moneyFrom,
    chargeMicroUsd,
    permit: { countsMicroUsd },
    nowMs,
  }: {
    /** Where the PERMIT took its money. */
    readonly moneyFrom: readonly UnitsSource[];
    readonly chargeMicroUsd: number;
    readonly permit: { readonly countsMicroUsd: MicroUsd | null };
    readonly nowMs: UnixMillis;
  },
): Promise<MoreMoney> {
  const amount = countsMicroUsd ?? 0;
  const isStanding = isId('sappr', approvalId);
  const rows = await tx<{ of: 'gate' | 'passport'; constraints: unknown; isInCatalog: boolean }[]>`
    SELECT 'gate' AS of, constraints, coalesce(${permissionKey}::text = ANY(catalog_approvals), false) AS "isInCatalog"
    FROM gates WHERE gate_id = ${gateId}
    UNION ALL SELECT 'passport', constraints, false FROM passports WHERE passport_id = ${passportId}`;
  let isWithinOne = !isId('appr', approvalId);
  const spendOf: Record<'gate' | 'passport', readonly WindowLimit[]> = { gate: [], passport: [] };
  for (const { of, constraints, isInCatalog } of rows) {
    const { spendLimits, approvals } = readStoredConstraints(constraints, of);
    const rule = compileApprovals({ spendLimits, approvals });
    if (amount > (spendLimits?.perTransactionMicroUsd ?? amount)) isWithinOne = false;
    const needsPerson = rule !== null && demandsApproval(rule, permissionKey, countsMicroUsd);
    if ((needsPerson || isInCatalog) && !isStanding) isWithinOne = false;
    spendOf[of] = compileSpendWindows(spendLimits, of);
  }
  const drawn: DrawnWindow[] = [];
  if (gateId !== null && isStanding) {
    const [standing] = await tx<{ totalMicroUsd: MicroUsd; expiresAtMs: UnixMillis }[]>`
      SELECT total_micro_usd AS "totalMicroUsd", expires_at_ms AS "expiresAtMs" FROM standing_approvals
      WHERE standing_approval_id = ${approvalId} AND ended_at_ms IS NULL AND expires_at_ms > ${nowMs}
        AND each_micro_usd >= ${amount}`;
    const { totalMicroUsd = 0 as MicroUsd, expiresAtMs = null } = standing ?? {};
    drawn.push(totalOf({ standingApprovalId: approvalId, totalMicroUsd, expiresAtMs }, gateId));
  }
  const ofGate = gateId === null ? null : { gateId, spendWindows: spendOf.gate };
  // The record does not say for whom its agent acted; what it took from does.
  const isPerUser = ofGate?.spendWindows.some(({ per }) => per === 'user') === true;
  const countedFor = isPerUser
    ? await countedIn(tx, ofGate.gateId, { moneyFrom, approvals: [approvalId], passportId })
    : null;
  if (isPerUser && countedFor === null) isWithinOne = false;
  const { windows, isFrozen } =
    passportId === null
      ? { windows: [], isFrozen: false }
      : await findMoneyWindows(tx, ofGate, {
          ...{ passportId, userKey: countedFor?.userKey ?? null },
          spendWindows: spendOf.passport,
        });
  drawn.push(...windows);
  return {
    held: (units) =>
      drawn.map(({ counter, window }) => ({
        counter,
        window,
        startsAtMs: windowAt(window, nowMs).startsAtMs,
        units,
      })),
    take: async (inTx) => {
      if (!isWithinOne || isFrozen) return false;
      if (drawn.length === 0) return true;
      const asks = drawn.map((each) => askOf(each, chargeMicroUsd));
      const [grant] = await takeUnits(inTx, [asks], nowMs);
      return grant?.isGranted === true;
    },
  };
}

/**
 * For whom the limits per user of this gate count the PERMIT. Null: nothing says so any more, as where a
 * token of another issuer named a user and no money was taken.
 */
async function countedIn(
  tx: Transaction,
  gateId: GateId,
  { passportId, ...sources }: Parameters<typeof findSources>[1] & { readonly passportId: PassportId | null },
): Promise<CountedFor | null> {
  for (const { counter } of await findSources(tx, sources)) {
    const counted = partOfGate(counter, gateId);
    if (counted !== null) return counted;
  }
  const [own] = await tx<{ issuerId: IssuerId; user: string | null }[]>`
    SELECT issuer_id AS "issuerId", for_user AS "user" FROM passports
    WHERE passport_id = ${passportId} AND token_hash <> ${federatedTokenHash}`;
  if (own === undefined) return null;
  return { passportId, userKey: own.user === null ? null : userKeyOf(own.issuerId, own.user) };
}

/** The windows that money of the passport at the gate is taken from now, and whether a wallet is frozen. */
export async function findMoneyWindows(
  tx: Transaction,
  gate: { readonly gateId: GateId; readonly spendWindows: readonly WindowLimit[] } | null,
  passport: {
    readonly passportId: PassportId;
    readonly userKey: IdDigest | null;
    readonly spendWindows: readonly WindowLimit[];
  },
): Promise<{ readonly windows: readonly DrawnWindow[]; readonly isFrozen: boolean }> {
  const paths = await findWalletPaths(tx, [passport.passportId]);
  const wallets = paths.get(passport.passportId)?.wallets ?? [];
  return {
    windows: moneyOf(windowsOf({ gate, passport, wallets })),
    isFrozen: wallets.some(({ status }) => status === 'frozen'),
  };
}

const askOf = ({ counter, window, endsAtMs, limit, baseLimit }: DrawnWindow, units: number): WindowAsk => ({
  ...{ counter, window, endsAtMs, limit, baseLimit },
  unitsMin: units,
  unitsMax: units,
});

export const chargeMore = { find };
