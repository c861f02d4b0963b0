import { type Static, Type } from 'typebox';
import { limits } from '../../model/limits.ts';
import { type MicroUsd, renderUsd } from '../../model/money.ts';
import { renderTime } from '../../model/time.ts';
import { calendarWindowNames, type QuotaWindow } from '../../quota/window.ts';
import type { WindowLimit } from '../../quota/window-limit.ts';
import { nullable, Timestamp } from './fields.ts';

const Holder = Type.Enum(['gate', 'passport']);
const Scope = Type.Enum(['gate', 'passport', 'user']);

/** `GET /gates/:id/usage` */
export const GateUsageQuery = Type.Object({
  passport_id: Type.Optional(Type.String()),
  /** For whom a passport of another issuer acts. */
  user: Type.Optional(Type.String({ minLength: 1, maxLength: limits.userCharsMax })),
});

export const LimitUsageAnswer = Type.Object({
  of: Holder,
  per: Scope,
  unit: Type.Enum(['requests', 'usd']),
  window: Type.Enum(calendarWindowNames),
  limit: Type.Number(),
  used: nullable(Type.Number()),
  leased: nullable(Type.Number()),
  remaining: nullable(Type.Number()),
  starts_at: Timestamp,
  ends_at: Timestamp,
});

export const GateUsageAnswer = Type.Object({
  gate_id: Type.String(),
  passport_id: nullable(Type.String()),
  read_at: Timestamp,
  limits: Type.Array(LimitUsageAnswer),
});

/** Units of one limit in its current window. */
export interface LimitUsage {
  readonly limit: WindowLimit;
  readonly window: QuotaWindow;
  /** Null: the limit counts per passport or user, and the query named none. */
  readonly units: { readonly givenOut: number; readonly leased: number } | null;
}

/** In USD or requests, as in a BLOCK (contract §5). */
export function renderLimitUsage({ limit, window, units }: LimitUsage): Static<typeof LimitUsageAnswer> {
  const isMoney = limit.kind === 'gate_spend' || limit.kind === 'passport_spend';
  const render = (count: number): number => (isMoney ? renderUsd(count as MicroUsd) : count);
  return {
    of: limit.kind === 'gate_rate' || limit.kind === 'gate_spend' ? 'gate' : 'passport',
    per: limit.per,
    unit: isMoney ? 'usd' : 'requests',
    window: limit.window,
    limit: render(limit.limit),
    used: units === null ? null : render(units.givenOut - units.leased),
    leased: units === null ? null : render(units.leased),
    // A lowered limit may be below the units given out before.
    remaining: units === null ? null : render(Math.max(limit.limit - units.givenOut, 0)),
    starts_at: renderTime(window.startsAtMs),
    ends_at: renderTime(window.endsAtMs),
  };
}
