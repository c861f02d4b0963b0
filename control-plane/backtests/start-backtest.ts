import { textHash } from '../../shared/crypto/content-hash.ts';
import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import type { Backtest } from '../../shared/model/backtest.ts';
import type { GateId } from '../../shared/model/ids.ts';
import { parseTime, type UnixMillis } from '../../shared/model/time.ts';
import type { BacktestRequest } from '../../shared/wire/api/backtest.ts';
import { applyGatePatch } from '../../shared/wire/api/gate.ts';
import { policyText } from '../../shared/wire/api/policy-hash.ts';
import type { BaseDeps } from '../base/deps.ts';
import { findGate } from '../gates/gate-store.ts';
import { newestCatalog } from '../gates/policy-store.ts';
import type { Caller } from '../http/caller.ts';
import { type BacktestJob, insertBacktest } from './backtest-store.ts';
import { backtestsLimits } from './limits.ts';

/**
 * Begins to decide what is on record of a gate again, by its policy with this patch. A replica of the control
 * plane does it in the background. Throws `backtest_running` while another one of the account runs.
 */
export async function startBacktest(
  { sql, clock, random }: Pick<BaseDeps, 'sql' | 'clock' | 'random'>,
  caller: Caller,
  { gateId, request }: { readonly gateId: GateId; readonly request: BacktestRequest },
): Promise<Backtest> {
  const { accountId, mode } = caller;
  const gate = await findGate(sql, caller, gateId);
  if (gate === null) throw new ApiError('gate_not_found');
  const { since, until, ...patch } = request;
  const nowMs = clock.now();
  const untilMs = readTime('until', until) ?? nowMs;
  const sinceMs = readTime('since', since) ?? ((untilMs - backtestsLimits.sinceMsDefault) as UnixMillis);
  if (untilMs > nowMs) throw invalidRequest('until', 'until must not be in the future.');
  if (sinceMs >= untilMs) throw invalidRequest('since', 'since must be before until.');
  const patched = applyGatePatch(patch, gate);
  const policy = policyText({ ...patched, catalog: await newestCatalog(sql, gateId) });
  const job: BacktestJob = {
    backtestId: random.newId('bt', nowMs),
    ...{ accountId, mode, gateId, policy, sinceMs, untilMs },
    policyHash: textHash(policy),
    status: 'running',
    progress: 0,
    reason: null,
    report: null,
    createdAtMs: nowMs,
    endedAtMs: null,
  };
  if (!(await sql.begin((tx) => insertBacktest(tx, job)))) throw new ApiError('backtest_running');
  return job;
}

function readTime(param: string, text: string | undefined): UnixMillis | null {
  if (text === undefined) return null;
  const timeMs = parseTime(text);
  if (timeMs === null)
    throw invalidRequest(param, `${param} must be an RFC 3339 date-time: 2026-11-01T00:00:00Z.`);
  return timeMs;
}
