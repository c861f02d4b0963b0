import type { AttestationId } from '../../shared/model/ids.ts';
import type { Repetition } from '../../shared/runtime/repeat.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import { sweepLockMsMax } from '../book/limits.ts';
import { boundWaits } from '../storage/bound-waits.ts';
import { isLockTimeout } from '../storage/database-away.ts';
import { sweepWhenDue } from '../storage/due-work.ts';
import { isOutage } from '../storage/outage.ts';
import { type ChangeResult, changePermits } from './change-permits.ts';
import { emitExpired } from './emit-outcome-events.ts';
import { outcomesLimits } from './limits.ts';
import { findDueHolds, lockDueHolds, putOffHold } from './outcome-store.ts';

export type SweepDeps = Pick<
  AppendingDeps,
  'sql' | 'clock' | 'random' | 'baseUrl' | 'signingKeys' | 'appending' | 'logger'
>;

/**
 * Ends holds without an outcome whose time is over, as their gates say, each with its record and event.
 * Resolves to the number processed, at most `outcomesLimits.holdsPerSweepMax`; more may be due.
 *
 * A hold is locked, read and written in one transaction, which skips those that others have locked. So with
 * any number of replicas and crashes each hold ends once. One that fails must not hold up the others: a
 * failed batch is tried again one by one. Throws if nothing can be written at all, or for one whose window
 * others hold: it is due again with the next sweep.
 */
export async function expireHolds(deps: SweepDeps): Promise<number> {
  // Until then no hold can have begun; one of a database that went back waits.
  if (deps.appending.recordForm() === 1) return 0;
  try {
    return await expireBatch(deps, null);
  } catch (error) {
    if (isOutage(error)) throw error;
    return expireOneByOne(deps);
  }
}

/** `only`: at most this one. */
const expireBatch = (deps: SweepDeps, only: AttestationId | null): Promise<number> =>
  deps.sql.begin(async (tx) => {
    await boundWaits(tx, { lockMsMax: sweepLockMsMax(only) });
    const nowMs = deps.clock.now();
    const due = await lockDueHolds(tx, { nowMs, only, max: outcomesLimits.holdsPerSweepMax });
    const results = await changePermits(
      tx,
      deps,
      due.map((attestationId) => ({
        attestationId,
        change: { kind: 'expire' },
        owner: null,
        source: 'control-plane',
      })),
      nowMs,
    );
    const failed = results.find((result) => result.kind !== 'changed');
    if (failed !== undefined) throw new Error(`a hold that is due was not ended: ${faultOf(failed)}`);
    await emitExpired(
      tx,
      deps,
      results.flatMap((result) => (result.kind === 'changed' ? [result.permit] : [])),
      nowMs,
    );
    return due.length;
  });

const faultOf = (result: ChangeResult): string =>
  result.kind === 'refused' ? result.message : 'its PERMIT is not on record';

async function expireOneByOne(deps: SweepDeps): Promise<number> {
  const due = await findDueHolds(deps.sql, deps.clock.now(), outcomesLimits.holdsPerSweepMax);
  let heldUp: unknown = null;
  for (const attestationId of due) {
    try {
      await expireBatch(deps, attestationId);
    } catch (error) {
      if (isOutage(error)) throw error;
      if (isLockTimeout(error)) {
        heldUp = error;
        continue;
      }
      deps.logger.error(
        { err: error, attestation_id: attestationId },
        'a hold could not be ended: its money stays held until a retry succeeds',
      );
      await putOffHold(deps.sql, attestationId, deps.clock.now() + outcomesLimits.putOffMs);
    }
  }
  if (heldUp !== null) throw heldUp;
  return due.length;
}

/** Ends holds on every replica. */
export const startHoldSweep = (deps: SweepDeps): Repetition =>
  sweepWhenDue(deps, 'holds', {
    usualMs: outcomesLimits.sweepIntervalMs,
    batch: () => expireHolds(deps),
    batchMax: outcomesLimits.holdsPerSweepMax,
    trouble: {
      begins: 'holds could not be ended: their money stays held',
      ends: 'holds end in time again',
    },
  });
