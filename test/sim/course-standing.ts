import type { GateId, PassportId, StandingApprovalId } from '../../shared/model/ids.ts';
import type { MicroUsd } from '../../shared/model/money.ts';
import type { PermissionKey } from '../../shared/model/permission.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { StandingApprovalBody } from '../../shared/wire/sync/sync-schema.ts';
import { numbered } from '../support/data/model-service.ts';
import type { Chance } from './chance.ts';
import type { Course } from './course.ts';
import type { Step } from './plan.ts';
import { asksOf } from './scenarios.ts';

/** The gate that asks a person above two dollars, by its place in the course. */
export const askingGate = 3;
const usd = 1_000_000;
/** Numbers of requests that no other part of the plan has. */
const requestsFrom = 800_000;

/** Standing approvals of that gate, each of one passport; in a part of the seeds. */
export function makeStanding(chance: Chance, startsAtMs: number): readonly StandingApprovalBody[] {
  const count = chance.pick([0, 0, 1, 2]);
  return Array.from({ length: count }, (_each, n) => {
    const each = chance.pick([2.5, 3.1, 3.1]) * usd;
    const lastsMs = chance.happens(0.5) ? chance.between(1_500, 5_000) : 90_000_000;
    return {
      standing_approval_id: `sappr_${String(n + 1).padStart(26, '0')}` as StandingApprovalId,
      passport_id: numbered.passport(1 + chance.below(3)) as PassportId,
      permission_key: 'orders:create' as PermissionKey,
      each_micro_usd: each as MicroUsd,
      total_micro_usd: (each * chance.pick([1, 3, 8, 20])) as MicroUsd,
      expires_at_ms: Math.floor(startsAtMs + lastsMs) as UnixMillis,
    };
  });
}

/** Requests that draw on them; each is used up, expires or is ended by a person while they do. */
export function standingSteps(chance: Chance, course: Course, durationMs: number): Step[] {
  const asks = asksOf(chance, course, requestsFrom);
  return course.standing.flatMap((each, standing) => {
    const { passport_id: id, each_micro_usd: eachMicroUsd, expires_at_ms: expiresAtMs } = each;
    const expiresAfterMs = expiresAtMs - course.startsAtMs;
    const isEnded = expiresAfterMs > durationMs && chance.happens(0.8);
    const endsAtMs = Math.min(expiresAfterMs, chance.between(0.15, 0.6) * durationMs);
    const drawing = {
      gate: askingGate,
      passport: course.passports.findIndex((passport) => passport.id === id),
      amountUsd: eachMicroUsd / usd,
    };
    const here = { ...drawing, sidecar: chance.below(course.sidecars) };
    return [
      ...asks.many(chance.pick([0, 4, 12]), 400, endsAtMs, drawing),
      // Units of it are at hand when it ends, and idle ones go back within two seconds.
      ...asks.many(4, endsAtMs - 600, endsAtMs - 30, here),
      ...(isEnded ? [{ kind: 'end standing', standing, atMs: endsAtMs } as const] : []),
      ...asks.many(6, endsAtMs + 20, endsAtMs + 1_500, here),
    ];
  });
}

/** What a counter in the ledger says of a standing approval; null: it is of none. */
export const standingOf = (counter: string, gateId: GateId | null): string | null => {
  const [kind, gate, id = ''] = counter.split(':');
  return kind === 'gate_spend' && gate === gateId && id.startsWith('sappr_') ? id : null;
};
