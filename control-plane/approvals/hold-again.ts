import { compileSpendWindows } from '../../shared/decision/compile-windows.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { counterKey } from '../../shared/quota/counter.ts';
import { windowAt, windowKey } from '../../shared/quota/window.ts';
import { counterOf } from '../../shared/quota/window-limit.ts';
import type { Transaction } from '../base/database.ts';
import { moveUnits } from '../quota/ledger.ts';
import { readStoredConstraints } from '../storage/stored-constraints.ts';
import type { StoredApproval } from './approval-store.ts';

/**
 * Takes the money of a denied approval once more, under the limits of today: all of it or nothing. False: the
 * limits have no room for it, the gate has changed, or a window has ended since the denial, in which others
 * may have spent what was freed. Locks quota windows, so it is the last statement of its transaction.
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
    const limit = limits.get(windowKey(counter, { name, startsAtMs }));
    if (limit === undefined) return false;
    const ask = { group: 0, limit, unitsMin: units, unitsNeeded: units, unitsAhead: 0 };
    moves.push({ counter, window, unitsBack: 0, ask });
  }
  if (moves.length === 0) return true;
  const moved = await moveUnits(tx, moves, nowMs);
  return moved.every((each) => each?.isGranted === true);
}

/** The limits on money of gate and passport, by their current windows; null: the gate is another by now. */
async function readLimits(
  tx: Transaction,
  { gateId, gateVersion, passportId, holds }: StoredApproval,
): Promise<ReadonlyMap<string, number> | null> {
  const [row] = await tx<{ ofGate: unknown; ofPassport: unknown }[]>`
    SELECT g.constraints AS "ofGate", p.constraints AS "ofPassport" FROM gates g, passports p
    WHERE g.gate_id = ${gateId} AND g.policy_version = ${gateVersion} AND g.deleted_at_ms IS NULL
      AND p.passport_id = ${passportId}`;
  if (row === undefined) return null;
  const windows = [
    ...compileSpendWindows(readStoredConstraints(row.ofGate, 'gate').spendLimits, 'gate'),
    ...compileSpendWindows(readStoredConstraints(row.ofPassport, 'passport').spendLimits, 'passport'),
  ];
  const starts = new Map(holds.map(({ window, startsAtMs }) => [window, startsAtMs]));
  return new Map(
    windows.flatMap((each) => {
      const startsAtMs = starts.get(each.window);
      const counter = counterKey(counterOf(each, gateId, passportId));
      return startsAtMs === undefined
        ? []
        : [[windowKey(counter, { name: each.window, startsAtMs }), each.limit] as const];
    }),
  );
}
