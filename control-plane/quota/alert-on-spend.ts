import type { DrawnWindow } from '../../shared/decision/windows-of.ts';
import { must } from '../../shared/errors/assert.ts';
import type { AttestationRecord } from '../../shared/model/attestation.ts';
import type { PassportId } from '../../shared/model/ids.ts';
import { type MicroUsd, parseMicroUsd, renderUsd } from '../../shared/model/money.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { windowAt, windowKey } from '../../shared/quota/window.ts';
import type { Transaction } from '../base/database.ts';
import type { BaseDeps } from '../base/deps.ts';
import { emitEvents, type NewEvent } from '../webhooks/emit-events.ts';
import {
  addToWindows,
  countedWindows,
  type FoundLimits,
  findSpendLimits,
  type SpendLimits,
  type SpentOfWindow,
  spentMax,
} from './spend-store.ts';

/**
 * Sums the spend of PERMITs in each window with a limit, and alerts the owner of the limit, once per window
 * and counter, when the sum passes `alert_at` of it (contract §6 and §14: `spend_limit.approaching`). Called
 * where records are appended, so each record counts once, whether a sidecar or the control plane decided it.
 * The window is that of the decision's time. Alerts are for people: no decision depends on these sums, and a
 * record that arrives `quotaLimits.spendCountedMs` after the end of its window does not count.
 *
 * Costs one look-up if money was spent, else nothing. The sums are hot rows, locked in the order of their key
 * until the transaction ends; only quota windows may be locked after them.
 */
async function alertOnSpend(
  tx: Transaction,
  deps: Pick<BaseDeps, 'random'>,
  { records, limits }: { readonly records: readonly AttestationRecord[]; readonly limits: FoundLimits },
): Promise<void> {
  const sums = [...addUp(records.filter(isSpending), limits).values()];
  if (sums.length === 0) return;
  const passed = await addToWindows(tx, sums);
  const alerts = passed.map(({ place, spent }) =>
    alertOf(must(sums[place], 'what has passed was added'), spent),
  );
  await emitEvents(tx, deps, alerts);
}

/** Looks up the limits that `records` may draw on; `add` counts the records that count. */
export async function findSpending(
  tx: Transaction,
  records: readonly AttestationRecord[],
): Promise<{
  readonly add: (
    tx: Transaction,
    deps: Pick<BaseDeps, 'random'>,
    counted: readonly AttestationRecord[],
  ) => Promise<void>;
}> {
  const spending = records.filter(isSpending);
  const limits = spending.length === 0 ? new Map() : await findSpendLimits(tx, spending);
  return { add: (addTx, deps, counted) => alertOnSpend(addTx, deps, { records: counted, limits }) };
}

type SpendingRecord = AttestationRecord & {
  readonly passportId: PassportId;
  readonly amountMicroUsd: MicroUsd;
};

const isSpending = (record: AttestationRecord): record is SpendingRecord =>
  record.decision === 'PERMIT' &&
  record.resolution === null &&
  !record.test &&
  record.passportId !== null &&
  record.amountMicroUsd !== null &&
  record.amountMicroUsd > 0;

/** Spend of these records in one window. */
interface WindowSum extends SpentOfWindow {
  readonly drawn: DrawnWindow;
  readonly by: SpendLimits;
  units: number;
  latestMs: UnixMillis;
}

function addUp(spending: readonly SpendingRecord[], limits: FoundLimits): ReadonlyMap<string, WindowSum> {
  const sums = new Map<string, WindowSum>();
  for (const { gateId, passportId, amountMicroUsd, timestampMs } of spending) {
    for (const { drawn, by } of countedWindows({ gateId, passportId }, limits)) {
      const key = drawn.counter;
      const window = windowAt(drawn.window, timestampMs);
      const alertUnits = Math.round(drawn.limit * by.alertAt);
      const name = windowKey(key, window);
      const sum = sums.get(name) ?? { drawn, by, key, window, alertUnits, units: 0, latestMs: timestampMs };
      sum.units = Math.min(sum.units + amountMicroUsd, spentMax);
      if (timestampMs > sum.latestMs) sum.latestMs = timestampMs;
      sums.set(name, sum);
    }
  }
  return sums;
}

function alertOf({ drawn, by, window, latestMs }: WindowSum, spent: number): NewEvent {
  const { limit, of } = drawn;
  return {
    event: 'spend_limit.approaching',
    to: [by.owner],
    data: {
      gate_id: 'gateId' in of ? of.gateId : null,
      passport_id: 'passportId' in of ? of.passportId : null,
      wallet_id: null,
      window: window.name,
      limit_usd: dollars(limit),
      spent_usd: dollars(spent),
      // Four digits, never rounded up: 1 means fully spent.
      fraction: Math.floor((spent / limit) * 10_000) / 10_000,
    },
    timestampMs: latestMs,
  };
}

const dollars = (units: number): number =>
  renderUsd(must(parseMicroUsd(units), 'money is counted in micro-USD'));
