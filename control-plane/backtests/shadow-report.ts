import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import type { GateId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { parseTime, renderTime, type UnixMillis } from '../../shared/model/time.ts';
import { Backtest } from '../../shared/replay/backtest.ts';
import { decideOnShadow, isOfShadow } from '../../shared/replay/decide-on-shadow.ts';
import type { DifferenceReport, Verdict } from '../../shared/replay/difference.ts';
import type { BaseDeps } from '../base/deps.ts';
import { findNewestShadow, type NewestShadow } from '../gates/shadow-store.ts';
import { backtestsLimits } from './limits.ts';
import { BacktestFailed, runBacktest } from './run-backtest.ts';

type ReportDeps = Pick<BaseDeps, 'sql' | 'clock' | 'random'>;

/** Accounts whose report this replica makes. */
const making = new Set<string>();

/** What the newest shadow of the gate has said so far, whether it is in force or has ended. */
export async function reportShadow(
  deps: ReportDeps,
  owner: Owner,
  asked: { readonly gateId: GateId; readonly since: string | undefined; readonly until: string | undefined },
): Promise<DifferenceReport> {
  const shadow = await findNewestShadow(deps.sql, asked.gateId);
  if (shadow === null) throw new ApiError('shadow_not_found');
  const nowMs = deps.clock.now();
  const untilMs = readTime('until', asked.until) ?? nowMs;
  const sinceMs = readTime('since', asked.since) ?? shadow.createdAtMs;
  if (sinceMs >= untilMs) throw invalidRequest('since', 'since must be before until.');
  return readShadow(deps, owner, { ...shadow, gateId: asked.gateId, sinceMs, untilMs });
}

/**
 * The records of a time, in their order. It ends before `untilMs` where it has taken as long, or read as many
 * records, as one answer may: `until` of the report says where. `onVerdict` gets each answer that is known.
 */
export async function readShadow(
  { sql, clock, random }: ReportDeps,
  owner: Owner,
  asked: Pick<NewestShadow, 'policyHash' | 'policy'> & {
    readonly gateId: GateId;
    readonly sinceMs: UnixMillis;
    readonly untilMs: UnixMillis;
  },
  onVerdict: (atMs: UnixMillis, outcome: Verdict['outcome']) => void = () => undefined,
): Promise<DifferenceReport> {
  if (making.has(owner.accountId)) throw new ApiError('overloaded');
  making.add(owner.accountId);
  const nowMs = clock.now();
  const endMs = clock.monotonic() + backtestsLimits.reportMsMax;
  const { accountId, mode } = owner;
  const job = {
    ...{ ...asked, accountId, mode, backtestId: random.newId('bt', nowMs), createdAtMs: nowMs },
    ...{ status: 'running' as const, progress: 0, reason: null, report: null, endedAtMs: null },
  };
  let reachedMs = asked.sinceMs;
  let made: Backtest | null = null;
  try {
    return await runBacktest(
      { sql },
      job,
      async () => {
        if (clock.monotonic() > endMs) throw new Enough();
      },
      (other, time) => {
        made = new Backtest(other, time, {
          again: decideOnShadow,
          isOf: isOfShadow(other),
          onDecided: ({ timestampMs, other: said }) => {
            reachedMs = timestampMs;
            if ('outcome' in said) onVerdict(timestampMs, said.outcome);
          },
        });
        return made;
      },
    );
  } catch (error) {
    if (error instanceof Enough && made !== null)
      return { ...(made as Backtest).report(), until: renderTime(reachedMs) };
    if (error instanceof BacktestFailed)
      throw invalidRequest(
        'since',
        'The time has too many records to be held in memory: ask for less of it.',
      );
    throw error;
  } finally {
    making.delete(accountId);
  }
}

/** It has read as much as it may. */
class Enough extends Error {}

function readTime(param: string, text: string | undefined): UnixMillis | null {
  if (text === undefined) return null;
  const timeMs = parseTime(text);
  if (timeMs === null)
    throw invalidRequest(param, `${param} must be an RFC 3339 date-time: 2026-11-01T00:00:00Z.`);
  return timeMs;
}
