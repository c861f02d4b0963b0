import { ApiError } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import { catalogue } from '../../shared/errors/catalogue.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { type Repetition, repeat } from '../../shared/runtime/repeat.ts';
import type { Transaction } from '../base/database.ts';
import { trimFormerLeases } from '../quota/return-money.ts';
import { databaseFailure } from '../storage/database-away.ts';
import { advisoryLocks } from '../storage/locks.ts';
import { type ChangeResult, changePermits, NoRoomForOverrun } from './change-permits.ts';
import { emitRefused } from './emit-outcome-events.ts';
import type { SweepDeps } from './expire-holds.ts';
import { outcomesLimits } from './limits.ts';
import { trimPermits } from './outcome-store.ts';
import {
  awaitPermits,
  findDueReported,
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
 */
export async function applyReported(deps: SweepDeps): Promise<number> {
  if (deps.appending.recordForm() === 1) return 0;
  try {
    return await applySome(deps, outcomesLimits.outcomesPerTurnMax);
  } catch (error) {
    // One of them costs more than was held: the first comes alone, until it is its turn.
    if (error instanceof NoRoomForOverrun) return applySome(deps, 1);
    if (error instanceof ApiError || databaseFailure(error) === 'service_unavailable') throw error;
    deps.logger.error({ err: error }, 'reported outcomes could not be applied: they are tried one by one');
    return applySome(deps, 1);
  }
}

async function applySome(deps: SweepDeps, max: number): Promise<number> {
  try {
    return await deps.sql.begin((tx) => applyInTurn(tx, deps, max, null));
  } catch (error) {
    if (max > 1 || !(error instanceof NoRoomForOverrun)) throw error;
    return deps.sql.begin((tx) => applyInTurn(tx, deps, 1, noRoom));
  }
}

const noRoom: ChangeResult = {
  kind: 'refused',
  code: 'spend_limit_exceeded',
  message: catalogue.spend_limit_exceeded.message,
};

/** `verdict`: known already, of the only one. */
async function applyInTurn(
  tx: Transaction,
  deps: SweepDeps,
  max: number,
  verdict: ChangeResult | null,
): Promise<number> {
  const [turn] = await tx<{ isMine: boolean }[]>`
    SELECT pg_try_advisory_xact_lock(${advisoryLocks.reportedOutcomes}) AS "isMine"`;
  if (turn?.isMine !== true) return 0;
  const nowMs = deps.clock.now();
  const due = await findDueReported(tx, nowMs, max);
  if (due.length === 0) return 0;
  const results =
    verdict === null
      ? await changePermits(
          tx,
          deps,
          due.map(({ attestationId, given, owner, sidecarId }) => ({
            attestationId,
            change: { kind: 'outcome', ...given },
            owner,
            source: sidecarId,
          })),
          nowMs,
        )
      : [verdict];
  await note(tx, deps, { due, results, nowMs });
  return due.length;
}

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
): Promise<void> {
  const refused: ReportedOutcome[] = [];
  const waiting: ReportedOutcome[] = [];
  const done: ReportedOutcome[] = [];
  due.forEach((each, place) => {
    const result = must(results[place], 'each outcome has a result');
    if (result.kind === 'refused') {
      refused.push({ ...each, refusal: { code: result.code, message: result.message } });
    } else if (result.kind !== 'unknown') done.push(each);
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
}

const neverCame = {
  code: 'attestation_not_found',
  message: 'No PERMIT of this id came within 7 days that the account of this sidecar may settle.',
} as const;

/** Applies outcomes on every replica, and trims what is old. Never throws. */
export function startApplyingOutcomes(deps: SweepDeps): Repetition {
  let isFailing = false;
  let trimmedAtMs = Number.NEGATIVE_INFINITY;
  return repeat(async (state) => {
    try {
      while ((await applyReported(deps)) > 0 && !state.isStopped);
      if (deps.clock.monotonic() - trimmedAtMs >= outcomesLimits.trimIntervalMs) {
        await trimRefused(deps.sql, deps.clock.now());
        await trimPermits(deps.sql, deps.clock.now());
        await deps.sql.begin(trimFormerLeases);
        trimmedAtMs = deps.clock.monotonic();
      }
      if (isFailing) deps.logger.info({}, 'reported outcomes are applied again');
      isFailing = false;
    } catch (error) {
      if (!isFailing) deps.logger.warn({ err: error }, 'reported outcomes could not be applied: they wait');
      isFailing = true;
    }
    return outcomesLimits.applyIntervalMs;
  });
}
