import { must } from '../../shared/errors/assert.ts';
import { catalogue } from '../../shared/errors/catalogue.ts';
import type { OutcomeId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { type Repetition, repeat } from '../../shared/runtime/repeat.ts';
import { tellingTrouble } from '../../shared/runtime/tell-trouble.ts';
import type { Transaction } from '../base/database.ts';
import { quotaLimits } from '../book/limits.ts';
import { trimFormerLeases } from '../book/post.ts';
import { boundWaits } from '../storage/bound-waits.ts';
import { isLockTimeout } from '../storage/database-away.ts';
import { sweepWhenDue } from '../storage/due-work.ts';
import { advisoryLocks } from '../storage/locks.ts';
import { isOutage } from '../storage/outage.ts';
import { type AskedChange, type ChangeResult, changePermits, NoRoomForOverrun } from './change-permits.ts';
import { emitRefused } from './emit-outcome-events.ts';
import type { SweepDeps } from './expire-holds.ts';
import { outcomesLimits } from './limits.ts';
import { trimPermits } from './outcome-store.ts';
import {
  awaitPermits,
  findDueReported,
  putOffReported,
  type ReportedOutcome,
  refuseReported,
  removeReported,
  trimRefused,
} from './reported-store.ts';

/**
 * Applies outcomes that sidecars have shipped, in the order in which they came, on one replica at a time.
 * Each is removed in the transaction that applies it, so it counts once; one that is refused stays, for the
 * list, and causes an event. One without its PERMIT waits for it, `outcomesLimits.outcomeWaitsMsMax` at most.
 * Resolves to the number looked at; more may be due.
 *
 * One that fails must not hold up the others: a failed batch is tried again one by one. Throws if nothing can
 * be written at all.
 */
export async function applyReported(deps: SweepDeps): Promise<number> {
  if (deps.appending.recordForm() === 1) return 0;
  try {
    const { count, alone } = await applyInTurn(deps);
    for (const outcomeId of alone) await applyOne(deps, outcomeId);
    return count;
  } catch (error) {
    // Behind a window that others hold all of them wait: one that is put off would be overtaken by a later
    // one of its PERMIT.
    if (isOutage(error) || isLockTimeout(error)) throw error;
    return applyOneByOne(deps);
  }
}

async function applyOneByOne(deps: SweepDeps): Promise<number> {
  const due = await findDueReported(deps.sql, deps.clock.now(), { only: null, max: perTurn });
  for (const { outcomeId } of due) {
    try {
      await applyOne(deps, outcomeId);
    } catch (error) {
      if (isOutage(error) || isLockTimeout(error)) throw error;
      deps.logger.error(
        { err: error, outcome_id: outcomeId },
        'a reported outcome could not be applied: it waits until a retry succeeds',
      );
      await putOffReported(deps.sql, outcomeId, deps.clock.now() + outcomesLimits.putOffMs);
    }
  }
  return due.length;
}

async function applyOne(deps: SweepDeps, only: OutcomeId): Promise<void> {
  try {
    await applyInTurn(deps, { only });
  } catch (error) {
    if (!(error instanceof NoRoomForOverrun)) throw error;
    await applyInTurn(deps, { only, verdict: noRoom });
  }
}

const perTurn = outcomesLimits.outcomesPerTurnMax;

const noRoom: ChangeResult = {
  kind: 'refused',
  code: 'spend_limit_exceeded',
  message: catalogue.spend_limit_exceeded.message,
};

interface Applied {
  readonly count: number;
  /** Still to be applied, each in a transaction of its own, in this order. */
  readonly alone: readonly OutcomeId[];
}

const nothing: Applied = { count: 0, alone: [] };

/** `only`: at most this one; `verdict`: known already, of that one. */
const applyInTurn = (
  deps: SweepDeps,
  {
    only = null,
    verdict = null,
  }: { readonly only?: OutcomeId | null; readonly verdict?: ChangeResult | null } = {},
): Promise<Applied> =>
  deps.sql.begin(async (tx) => {
    await boundWaits(tx, { lockMsMax: quotaLimits.sweepLockMsMax });
    const [turn] = await tx<{ isMine: boolean }[]>`
      SELECT pg_try_advisory_xact_lock(${advisoryLocks.reportedOutcomes}) AS "isMine"`;
    if (turn?.isMine !== true) return nothing;
    const nowMs = deps.clock.now();
    const due = await findDueReported(tx, nowMs, { only, max: perTurn });
    if (due.length === 0) return nothing;
    const asked = due.map(
      ({ attestationId, given, owner, sidecarId }): AskedChange => ({
        attestationId,
        change: { kind: 'outcome', ...given },
        owner,
        source: sidecarId,
      }),
    );
    const results = verdict === null ? await changePermits(tx, deps, asked, nowMs) : [verdict];
    const alone = await note(tx, deps, { due, results, nowMs });
    return { count: due.length, alone };
  });

/** Resolves to those that have to come alone. */
async function note(
  tx: Transaction,
  deps: SweepDeps,
  {
    due,
    results,
    nowMs,
  }: {
    readonly due: readonly ReportedOutcome[];
    readonly results: readonly ChangeResult[];
    readonly nowMs: UnixMillis;
  },
): Promise<readonly OutcomeId[]> {
  const alone: OutcomeId[] = [];
  const refused: ReportedOutcome[] = [];
  const waiting: ReportedOutcome[] = [];
  const done: ReportedOutcome[] = [];
  due.forEach((each, place) => {
    const result = must(results[place], 'each outcome has a result');
    if (result.kind === 'refused') {
      refused.push({ ...each, refusal: { code: result.code, message: result.message } });
    } else if (result.kind === 'alone') alone.push(each.outcomeId);
    else if (result.kind !== 'unknown') done.push(each);
    else if (nowMs - each.receivedAtMs < outcomesLimits.outcomeWaitsMsMax) waiting.push(each);
    else refused.push({ ...each, refusal: neverCame });
  });
  await removeReported(
    tx,
    done.map(({ outcomeId }) => outcomeId),
  );
  await awaitPermits(
    tx,
    waiting.map(({ outcomeId }) => outcomeId),
    nowMs,
  );
  await refuseReported(tx, refused);
  await emitRefused(tx, deps, refused, nowMs);
  return alone;
}

const neverCame = {
  code: 'attestation_not_found',
  message: 'No PERMIT of this id came within 7 days that the account of this sidecar may settle.',
} as const;

/** Applies outcomes on every replica, and trims what is old. Never throws. */
export function startApplyingOutcomes(deps: SweepDeps): Repetition {
  const repetitions = [startApplying(deps), startTrimming(deps)];
  const each = async (act: 'stop' | 'wake') => void (await Promise.all(repetitions.map((one) => one[act]())));
  return { stop: () => each('stop'), wake: () => void each('wake') };
}

const trouble = ({ logger }: SweepDeps, begins: string) => ({
  ...{ logger, begins, ends: 'what failed with reported outcomes works again' },
  pauseMs: outcomesLimits.applyIntervalMs,
});

const startApplying = (deps: SweepDeps): Repetition =>
  sweepWhenDue(deps, 'outcomes', {
    usualMs: outcomesLimits.applyIntervalMs,
    batch: () => applyReported(deps),
    batchMax: 1,
    trouble: trouble(deps, 'reported outcomes could not be applied: they wait'),
  });

const startTrimming = (deps: SweepDeps): Repetition =>
  repeat(
    tellingTrouble(
      async () => {
        await trimRefused(deps.sql, deps.clock.now());
        await trimPermits(deps.sql, deps.clock.now());
        await deps.sql.begin(trimFormerLeases);
        return outcomesLimits.trimIntervalMs;
      },
      trouble(deps, 'old outcomes could not be removed: they wait'),
    ),
  );
