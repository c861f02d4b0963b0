import type { FastifyInstance } from 'fastify';
import { ApiError } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import { secondMs, toSeconds, type UnixMillis } from '../../shared/model/time.ts';
import { counterKey } from '../../shared/quota/counter.ts';
import type { QuotaWindow } from '../../shared/quota/window.ts';
import type { BaseDeps } from '../base/deps.ts';
import { takeUnits, type WindowAsk } from '../book/take-units.ts';
import type { Caller } from '../http/caller.ts';

/**
 * Plan limits (contract §2): requests of an account in a UTC minute and a UTC day, counted in the quota
 * ledger, so that all replicas share one count. Runs between authentication and authorisation, before the
 * body is read: every call with a valid key counts, even if it is refused later (400, 403, 404, 409). Not
 * counted: calls without a valid key, calls of a suspended account, which are all refused, and calls of
 * sidecars, which must not stop because people were busy.
 *
 * Every counted answer describes the window with the fewest requests remaining. A call over the limit takes
 * nothing from any window.
 */
export function installPlanLimits(app: FastifyInstance, deps: Pick<BaseDeps, 'sql' | 'clock'>): void {
  app.addHook('onRequest', async (request, reply) => {
    if (request.caller === null || request.routeOptions.config.scope === 'sidecars:connect') return;
    const nowMs = deps.clock.now();
    const standing = await takeRequest(deps, request.caller, nowMs);
    if (standing === null) return;
    const { limit, remaining, window, isGranted } = standing;
    reply.header('x-ratelimit-limit', limit);
    reply.header('x-ratelimit-remaining', remaining);
    reply.header('x-ratelimit-reset', toSeconds(window.endsAtMs));
    if (isGranted) return;
    reply.header('retry-after', Math.ceil((window.endsAtMs - nowMs) / secondMs));
    throw new ApiError('rate_limited', {
      message: `The plan limit of this account is used up (requests per ${window.name}: ${limit}).`,
    });
  });
}

interface PlanUsage {
  readonly isGranted: boolean;
  readonly limit: number;
  /** After this request. */
  readonly remaining: number;
  readonly window: QuotaWindow;
}

/** Takes one request from both windows, or from neither. Null: the account has no limit. */
async function takeRequest(
  { sql }: Pick<BaseDeps, 'sql'>,
  caller: Caller,
  nowMs: UnixMillis,
): Promise<PlanUsage | null> {
  const ask = planAsk(caller);
  if (ask.length === 0) return null;
  const [grant] = await takeUnits(sql, [ask], nowMs);
  const { isGranted, windows } = must(grant, 'an ask is answered');
  const usages = windows.map(({ window, leased }, index) => {
    const { limit } = must(ask[index], 'each window answers an ask');
    return { isGranted, limit, remaining: Math.max(limit - leased, 0), window };
  });
  return usages.reduce(tighter);
}

function planAsk({ accountId, planLimits }: Caller): WindowAsk[] {
  const counter = counterKey({ kind: 'plan', accountId });
  const { requestsPerMinute, requestsPerDay } = planLimits;
  return [
    { window: 'minute', limit: requestsPerMinute } as const,
    { window: 'day', limit: requestsPerDay } as const,
  ].flatMap(({ window, limit }) =>
    limit === null ? [] : [{ counter, window, limit, unitsMin: 1, unitsMax: 1 }],
  );
}

/** Of two windows with equal remainders, the longer one: a call can succeed after its end. */
const tighter = (one: PlanUsage, other: PlanUsage): PlanUsage =>
  one.remaining < other.remaining ||
  (one.remaining === other.remaining && one.window.endsAtMs > other.window.endsAtMs)
    ? one
    : other;
