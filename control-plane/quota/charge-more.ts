import { compileSpendWindows } from '../../shared/decision/compile-windows.ts';
import type { AttestationRecord } from '../../shared/model/attestation.ts';
import { isId, type PassportId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { walletLimits, walletWindows } from '../../shared/model/wallet.ts';
import { counterKey } from '../../shared/quota/counter.ts';
import { windowAt } from '../../shared/quota/window.ts';
import { counterOf } from '../../shared/quota/window-limit.ts';
import type { Transaction } from '../base/database.ts';
import { readStoredConstraints } from '../storage/stored-constraints.ts';
import type { HeldUnits } from './held-units.ts';
import { takeUnits, type WindowAsk } from './take-units.ts';
import { counterOfLane, findWalletPaths } from './wallet-paths.ts';

interface MoreMoney {
  /** The windows that it is taken from. */
  readonly held: (nowMs: UnixMillis, microUsd: number) => readonly HeldUnits[];
  /** Locks quota windows until the commit. False: a limit has no room. */
  readonly take: (tx: Transaction, nowMs: UnixMillis) => Promise<boolean>;
}

/**
 * Money that a PERMIT costs beyond its hold (contract §19): from every limit that a new request of its
 * passport at its gate would draw on now, whole or not at all. A frozen wallet has no room.
 */
async function find(
  tx: Transaction,
  { gateId, passportId, approvalId }: AttestationRecord,
  {
    chargeMicroUsd,
    permit,
  }: { readonly chargeMicroUsd: number; readonly permit: { readonly countsMicroUsd: number | null } },
): Promise<MoreMoney> {
  const rows = await tx<{ of: 'gate' | 'passport'; constraints: unknown }[]>`
    SELECT 'gate' AS of, constraints FROM gates WHERE gate_id = ${gateId}
    UNION ALL SELECT 'passport', constraints FROM passports WHERE passport_id = ${passportId}`;
  let isWithinOne = true;
  const asks: WindowAsk[] = [];
  for (const { of, constraints } of rows) {
    const { spendLimits } = readStoredConstraints(constraints, of);
    const each = spendLimits?.perTransactionMicroUsd ?? null;
    if (each !== null && (permit.countsMicroUsd ?? 0) > each) isWithinOne = false;
    if (passportId === null) continue;
    for (const limit of compileSpendWindows(spendLimits, of)) {
      const counter = counterKey(counterOf(limit, gateId, passportId));
      asks.push(askOf({ counter, window: limit.window, limit: limit.limit }, chargeMicroUsd));
    }
  }
  if (gateId !== null && isId('sappr', approvalId)) {
    const [standing] = await tx<{ limit: number; endsAtMs: UnixMillis; isOver: boolean }[]>`
      SELECT total_micro_usd AS limit, expires_at_ms AS "endsAtMs", ended_at_ms IS NOT NULL AS "isOver"
      FROM standing_approvals WHERE standing_approval_id = ${approvalId}`;
    const counter = counterKey({ kind: 'standing_approval', gateId, standingApprovalId: approvalId });
    const limit = standing === undefined || standing.isOver ? 0 : standing.limit;
    asks.push({
      ...askOf({ counter, window: 'total', limit }, chargeMicroUsd),
      endsAtMs: standing?.endsAtMs ?? null,
    });
  }
  const ofWallets = await askWallets(tx, passportId, chargeMicroUsd);
  asks.push(...ofWallets.asks);
  return {
    held: (nowMs, units) =>
      asks.map(({ counter, window }) => ({
        counter,
        window,
        startsAtMs: windowAt(window, nowMs).startsAtMs,
        units,
      })),
    take: async (inTx, nowMs) => {
      if (!isWithinOne || ofWallets.isFrozen) return false;
      if (asks.length === 0) return true;
      const [grant] = await takeUnits(inTx, [asks], nowMs);
      return grant?.isGranted === true;
    },
  };
}

async function askWallets(
  tx: Transaction,
  passportId: PassportId | null,
  units: number,
): Promise<{ readonly asks: readonly WindowAsk[]; readonly isFrozen: boolean }> {
  const paths = passportId === null ? null : await findWalletPaths(tx, [passportId]);
  const wallets = (passportId !== null && paths?.get(passportId)?.wallets) || [];
  const asks = walletWindows(wallets)
    .flat()
    .filter(({ name }) => walletLimits[name].kind === 'wallet_spend')
    .map((lane) => ({
      ...askOf(
        { counter: counterOfLane(lane), window: walletLimits[lane.name].window, limit: lane.limit },
        units,
      ),
      baseLimit: lane.walletLimit,
    }));
  return { asks, isFrozen: wallets.some(({ status }) => status === 'frozen') };
}

const askOf = (of: Pick<WindowAsk, 'counter' | 'window' | 'limit'>, units: number): WindowAsk => ({
  ...of,
  unitsMin: units,
  unitsMax: units,
});

export const chargeMore = { find };
