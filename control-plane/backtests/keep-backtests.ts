/**
 * Room `control-plane/backtests`: what a policy would have decided, from the records of a gate (contract
 * §4). `start-backtest.ts` queues one, this file does them one at a time on each replica, `run-backtest.ts`
 * reads the records in their order, `past-facts.ts` what the database knows beside them.
 */

import type { BacktestFailure } from '../../shared/model/backtest.ts';
import type { Repetition } from '../../shared/runtime/repeat.ts';
import { tellingTrouble } from '../../shared/runtime/tell-trouble.ts';
import type { BaseDeps } from '../base/deps.ts';
import { repeatWhenDue } from '../storage/due-work.ts';
import { isOutage } from '../storage/outage.ts';
import {
  type BacktestJob,
  claimBacktest,
  endBacktest,
  failLostBacktests,
  noteProgress,
  trimBacktests,
} from './backtest-store.ts';
import { backtestsLimits } from './limits.ts';
import { BacktestFailed, runBacktest } from './run-backtest.ts';

type KeepingDeps = Pick<BaseDeps, 'sql' | 'clock' | 'logger' | 'replicaId'>;

/**
 * Does backtests, one at a time, with one statement of the database at a time. One of a replica that is gone
 * has failed; so has one whose replica is stopped. Never throws.
 */
export function startBacktests(deps: KeepingDeps): Repetition {
  const { sql, clock, logger } = deps;
  const round = tellingTrouble(
    async (state: { readonly isStopped: boolean }) => {
      await failLostBacktests(sql);
      await trimBacktests(sql, clock.now());
      while (!state.isStopped) {
        const job = await claimBacktest(sql, deps.replicaId);
        if (job === null) break;
        await doBacktest(deps, job, state);
      }
      return backtestsLimits.lookMs;
    },
    {
      ...{ logger, pauseMs: backtestsLimits.lookMs },
      begins: 'backtests cannot be done, which is tried again',
      ends: 'backtests can be done again',
    },
  );
  return repeatWhenDue(sql, 'backtests', { usualMs: backtestsLimits.lookMs, round });
}

/** It was cancelled, or taken for lost. */
class NotOurs extends Error {}

async function doBacktest(
  { sql, clock, logger, replicaId }: KeepingDeps,
  job: BacktestJob,
  state: { readonly isStopped: boolean },
): Promise<void> {
  const own = { backtestId: job.backtestId, replicaId };
  const startedMs = clock.monotonic();
  let notedMs = startedMs;
  const onPage = async (progress: number) => {
    if (state.isStopped) throw new BacktestFailed('control_plane_stopped');
    const nowMs = clock.monotonic();
    if (nowMs - startedMs > backtestsLimits.runMsMax) throw new BacktestFailed('too_long');
    if (nowMs - notedMs < backtestsLimits.progressMs) return;
    notedMs = nowMs;
    if (!(await noteProgress(sql, { ...own, progress }))) throw new NotOurs();
  };
  try {
    await endBacktest(sql, own, { report: await runBacktest({ sql }, job, onPage) });
  } catch (error) {
    if (error instanceof NotOurs) return;
    const reason = failureOf(error);
    if (reason === 'internal_error') logger.error({ err: error, ...own }, 'a backtest failed');
    await endBacktest(sql, own, { reason });
  }
}

const failureOf = (error: unknown): BacktestFailure => {
  if (error instanceof BacktestFailed) return error.reason;
  return isOutage(error) ? 'database_unavailable' : 'internal_error';
};
