import type { AttestationRecord } from '../../shared/model/attestation.ts';
import type { MicroUsd } from '../../shared/model/money.ts';
import { type QuotaWindow, windowAt, windowKey } from '../../shared/quota/window.ts';
import type { Transaction } from '../base/database.ts';
import type { BaseDeps } from '../base/deps.ts';
import { findSpending } from './alert-on-spend.ts';
import { countedWindows, findSpendLimits } from './spend-store.ts';

/** A PERMIT that counts more or less than before. */
interface Adjustment {
  readonly record: AttestationRecord;
  readonly deltaMicroUsd: number;
}

/**
 * Follows what PERMITs count in the sums behind alerts (contract §6 and §19), in the windows of their
 * decisions. More money may raise an alert; less takes none back.
 */
export async function adjustSpend(
  tx: Transaction,
  deps: Pick<BaseDeps, 'random'>,
  adjustments: readonly Adjustment[],
): Promise<void> {
  const more = adjustments
    .filter(({ deltaMicroUsd }) => deltaMicroUsd > 0)
    .map(({ record, deltaMicroUsd }) => ({ ...record, amountMicroUsd: deltaMicroUsd as MicroUsd }));
  const less = adjustments.filter(
    ({ record, deltaMicroUsd }) => deltaMicroUsd < 0 && record.passportId !== null,
  );
  if (less.length > 0) await subtract(tx, less);
  if (more.length > 0) await (await findSpending(tx, more)).add(tx, deps, more);
}

async function subtract(tx: Transaction, less: readonly Adjustment[]): Promise<void> {
  const of = less.flatMap(({ record: { gateId, passportId } }) =>
    passportId === null ? [] : [{ gateId, passportId }],
  );
  const limits = await findSpendLimits(tx, of);
  const sums = new Map<string, { readonly key: string; readonly window: QuotaWindow; units: number }>();
  for (const { record, deltaMicroUsd } of less) {
    const { gateId, passportId, timestampMs } = record;
    if (passportId === null) continue;
    for (const { drawn } of countedWindows({ gateId, passportId }, limits)) {
      const key = drawn.counter;
      const window = windowAt(drawn.window, timestampMs);
      const name = windowKey(key, window);
      const sum = sums.get(name) ?? { key, window, units: 0 };
      sum.units -= deltaMicroUsd;
      sums.set(name, sum);
    }
  }
  if (sums.size === 0) return;
  const rows = [...sums.values()];
  const named = tx`
    unnest(
      ${rows.map(({ key }) => key)}::text[],
      ${rows.map(({ window }) => window.name)}::text[],
      ${rows.map(({ window }) => window.startsAtMs)}::bigint[],
      ${rows.map(({ units }) => units)}::bigint[]
    ) AS w (counter, window_name, starts_at_ms, units)`;
  // In the order of their key, as they are added to.
  await tx`
    SELECT FROM quota_spend q JOIN ${named} USING (counter, window_name, starts_at_ms)
    ORDER BY q.counter COLLATE "C", q.window_name COLLATE "C", q.starts_at_ms FOR UPDATE OF q`;
  await tx`
    UPDATE quota_spend q SET spent = greatest(q.spent - w.units, 0) FROM ${named}
    WHERE (q.counter, q.window_name, q.starts_at_ms) = (w.counter, w.window_name, w.starts_at_ms)`;
}
