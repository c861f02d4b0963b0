import type { BacktestId, GateId } from './ids.ts';
import type { Owner } from './owner.ts';
import type { UnixMillis } from './time.ts';

export const backtestStatuses = ['running', 'done', 'failed', 'cancelled'] as const;
export type BacktestStatus = (typeof backtestStatuses)[number];

/**
 * Why a backtest failed: the control plane that did it was stopped, or is gone; the time has more approvals,
 * or limits of more passports, than are held in memory; it took too long; the database did not answer.
 */
export const backtestFailures = [
  'control_plane_stopped',
  'control_plane_lost',
  'too_many_approvals',
  'too_many_counters',
  'too_long',
  'database_unavailable',
  'internal_error',
] as const;
export type BacktestFailure = (typeof backtestFailures)[number];

/** What a policy would have decided at a gate (contract §4). */
export interface Backtest extends Owner {
  readonly backtestId: BacktestId;
  readonly gateId: GateId;
  readonly sinceMs: UnixMillis;
  readonly untilMs: UnixMillis;
  readonly status: BacktestStatus;
  /** From 0 to 1. */
  readonly progress: number;
  readonly reason: BacktestFailure | null;
  /** Null until it is done. */
  readonly report: object | null;
  readonly createdAtMs: UnixMillis;
  readonly endedAtMs: UnixMillis | null;
}
