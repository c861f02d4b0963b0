import { compileSpendWindows } from '../../shared/decision/compile-windows.ts';
import type { DrawnWindow } from '../../shared/decision/windows-of.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { partOfGate } from '../../shared/quota/counter.ts';
import { windowAt } from '../../shared/quota/window.ts';
import type { Transaction } from '../base/database.ts';
import { moveUnits } from '../book/ledger.ts';
import { findMoneyWindows } from '../quota/charge-more.ts';
import { readStoredConstraints } from '../storage/stored-constraints.ts';
import type { StoredApproval } from './approval-store.ts';

/**
 * Takes the money of a denied approval once more, under the limits of today: all of it or nothing. False: the
 * limits have no room for it, the gate or the wallets have changed, a wallet is frozen, or a window has ended
 * since the denial, in which others may have spent what was freed. Locks quota windows, so it is the last
 * statement of its transaction.
 */
export async function holdAgain(
  tx: Transaction,
  denied: StoredApproval,
  nowMs: UnixMillis,
): Promise<boolean> {
  const limits = await readLimits(tx, denied);
  if (limits === null) return false;
  const moves = [];
  for (const { counter, window: name, startsAtMs, units } of denied.holds) {
    const window = windowAt(name, startsAtMs);
    // The denial frees nothing of a window that had ended by then: it is still held.
    if (units === 0 || (denied.resolvedAtMs !== null && window.endsAtMs <= denied.resolvedAtMs)) continue;
    if (window.endsAtMs <= nowMs) return false;
    const found = limits.get(nameOf({ counter, window: name }));
    if (found === undefined) return false;
    const { limit, baseLimit } = found;
    const ask = { group: 0, limit, baseLimit, unitsMin: units, unitsNeeded: units, unitsAhead: 0 };
    moves.push({ counter, window, unitsBack: 0, ask });
  }
  if (moves.length === 0) return true;
  const moved = await moveUnits(tx, moves, nowMs);
  return moved.every((each) => each?.isGranted === true);
}

const nameOf = ({ counter, window }: Pick<DrawnWindow, 'counter' | 'window'>): string =>
  `${counter} ${window}`;

/** Of gate, passport and wallets; null: the gate is another by now, or a wallet is frozen. */
async function readLimits(
  tx: Transaction,
  { gateId, gateVersion, passportId, holds }: StoredApproval,
): Promise<ReadonlyMap<string, DrawnWindow> | null> {
  const [row] = await tx<{ ofGate: unknown; ofPassport: unknown }[]>`
    SELECT g.constraints AS "ofGate", p.constraints AS "ofPassport" FROM gates g, passports p
    WHERE g.gate_id = ${gateId} AND g.policy_version = ${gateVersion} AND g.deleted_at_ms IS NULL
      AND p.passport_id = ${passportId}`;
  if (row === undefined) return null;
  const spendOf = (stored: unknown, of: 'gate' | 'passport') =>
    compileSpendWindows(readStoredConstraints(stored, of).spendLimits, of);
  // Of what limits per user counted, its holds say for whom.
  const [userKey = null] = holds.flatMap(({ counter }) => partOfGate(counter, gateId)?.userKey ?? []);
  const { windows, isFrozen } = await findMoneyWindows(
    tx,
    { gateId, spendWindows: spendOf(row.ofGate, 'gate') },
    { passportId, userKey, spendWindows: spendOf(row.ofPassport, 'passport') },
  );
  return isFrozen ? null : new Map(windows.map((each) => [nameOf(each), each]));
}
