import { type Static, Type } from 'typebox';
import { type Backtest, backtestFailures, backtestStatuses } from '../../model/backtest.ts';
import { renderOptionalTime, renderTime } from '../../model/time.ts';
import { DifferenceAnswer } from './difference.ts';
import { closed, FreeForm, nullable, Tier, Timestamp } from './fields.ts';
import { GateRoutes } from './gate-routes.ts';

/** `POST /gates/:id/backtest`: a JSON merge patch on the live policy, and the time to try it on. */
export const BacktestRequest = closed({
  constraints: Type.Optional(nullable(FreeForm)),
  trust_level: Type.Optional(nullable(Tier)),
  /** Replaced as a whole; null removes all. */
  routes: Type.Optional(nullable(GateRoutes)),
  since: Type.Optional(Type.String()),
  until: Type.Optional(Type.String()),
});
export type BacktestRequest = Static<typeof BacktestRequest>;

export const BacktestAnswer = Type.Object({
  backtest_id: Type.String(),
  gate_id: Type.String(),
  status: Type.Enum(backtestStatuses),
  /** From 0 to 1. */
  progress: Type.Number({ minimum: 0, maximum: 1 }),
  /** Why it failed; else null. */
  reason: nullable(Type.Enum(backtestFailures)),
  since: Timestamp,
  until: Timestamp,
  created_at: Timestamp,
  ended_at: nullable(Timestamp),
  report: nullable(DifferenceAnswer),
});

export const renderBacktest = (backtest: Backtest): Static<typeof BacktestAnswer> => ({
  backtest_id: backtest.backtestId,
  gate_id: backtest.gateId,
  status: backtest.status,
  progress: Math.floor(backtest.progress * 1000) / 1000,
  reason: backtest.reason,
  since: renderTime(backtest.sinceMs),
  until: renderTime(backtest.untilMs),
  created_at: renderTime(backtest.createdAtMs),
  ended_at: renderOptionalTime(backtest.endedAtMs),
  report: backtest.report as Static<typeof DifferenceAnswer> | null,
});
