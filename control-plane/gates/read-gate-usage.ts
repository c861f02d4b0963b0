import { userKeyOf } from '../../shared/crypto/federated-id.ts';
import { compileRateWindows, compileSpendWindows } from '../../shared/decision/compile-windows.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { Constraints } from '../../shared/model/constraints.ts';
import type { GateId, PassportId } from '../../shared/model/ids.ts';
import { holdsScope } from '../../shared/model/scopes.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { type CounterKey, counterKey } from '../../shared/quota/counter.ts';
import { windowAt } from '../../shared/quota/window.ts';
import { counterOf, type WindowLimit } from '../../shared/quota/window-limit.ts';
import type { LimitUsage } from '../../shared/wire/api/gate-usage.ts';
import type { Database } from '../base/database.ts';
import { readUsage } from '../book/read-usage.ts';
import type { Caller } from '../http/caller.ts';
import { findPassport } from '../passports/passport-store.ts';
import { findGate } from './gate-store.ts';

/**
 * Current usage of the limits that apply at the gate: its own, and with a passport that the caller owns and
 * may read also the passport's. A limit counted per passport has numbers only if a passport is named, and one
 * per user only if such a passport says, or the caller of one of another issuer, for whom it acts. Throws
 * `gate_not_found`.
 */
export async function readGateUsage(
  sql: Database,
  caller: Caller,
  of: {
    readonly gateId: GateId;
    readonly passportId: PassportId | null;
    /** Of a passport of another issuer, whose tokens name one each. */
    readonly user: string | null;
    readonly nowMs: UnixMillis;
  },
): Promise<readonly LimitUsage[]> {
  const { gateId, passportId, user, nowMs } = of;
  const gate = await findGate(sql, caller, gateId);
  if (gate === null) throw new ApiError('gate_not_found');
  const readsPassports = holdsScope(caller.scopes, 'passports:read');
  const passport =
    passportId === null || !readsPassports ? null : await findPassport(sql, caller, { passportId, nowMs });
  const limits = [
    ...windowsOf(gate.constraints, 'gate'),
    ...(passport === null ? [] : windowsOf(passport.constraints, 'passport')),
  ];
  const actsFor = passport?.isFederated === true ? user : (passport?.user ?? null);
  const userKey = passport === null || actsFor === null ? null : userKeyOf(passport.issuerId, actsFor);
  const counterIn = (limit: WindowLimit): CounterKey | null => {
    if (limit.per === 'gate') return counterKey({ kind: kindOfGate(limit), gateId, passportId: null });
    if (passportId === null) return null;
    if (limit.per === 'user' && passport === null) return null;
    return counterKey(counterOf(limit, gateId, { passportId, userKey }));
  };
  const counted = limits.flatMap((limit) => {
    const counter = counterIn(limit);
    return counter === null ? [] : [{ limit, counter, window: limit.window }];
  });
  const usages = await readUsage(sql, counted, nowMs);
  const byLimit = new Map(counted.map(({ limit }, place) => [limit, usages[place] ?? null]));
  return limits.map((limit) => ({
    limit,
    window: windowAt(limit.window, nowMs),
    units: byLimit.get(limit) ?? null,
  }));
}

/** A limit `per: gate` belongs to a gate; a passport's own limits are always per passport. */
const kindOfGate = ({ kind }: WindowLimit) => (kind === 'gate_rate' ? 'gate_rate' : 'gate_spend');

const windowsOf = (
  { rateLimits, spendLimits }: Constraints,
  of: 'gate' | 'passport',
): readonly WindowLimit[] => [...compileRateWindows(rateLimits, of), ...compileSpendWindows(spendLimits, of)];
