import { must } from '../errors/assert.ts';
import type { LimitScope } from '../model/constraints.ts';
import type { IdDigest } from '../model/id-digest.ts';
import type { GateId, PassportId } from '../model/ids.ts';
import type { Counter } from './counter.ts';
import type { CalendarWindowName } from './window.ts';

/** Owner and unit of a limit: requests for a rate, micro-USD for spend. */
export type LimitKind = Exclude<
  Counter['kind'],
  'plan' | 'standing_approval' | 'wallet_rate' | 'wallet_spend'
>;

/** One configured limit on one calendar window; a permitted request draws on it. */
export interface WindowLimit {
  readonly kind: LimitKind;
  readonly window: CalendarWindowName;
  /** Requests or micro-USD; 0 lets nothing pass. */
  readonly limit: number;
  /**
   * For a gate's limit: one counter for the gate, one per passport, or one per user, where a passport without
   * one counts by itself. A passport's own limit is always `passport`.
   */
  readonly per: LimitScope;
}

/** The counter of the limit, for a request of this passport at this gate. */
export function counterOf(
  limit: WindowLimit,
  gateId: GateId | null,
  { passportId, userKey }: { readonly passportId: PassportId; readonly userKey: IdDigest | null },
): Extract<Counter, { readonly kind: LimitKind }> {
  switch (limit.kind) {
    case 'gate_rate':
    case 'gate_spend': {
      const of = { kind: limit.kind, gateId: must(gateId, 'a limit of a gate is met at the gate') };
      if (limit.per === 'user' && userKey !== null) return { ...of, passportId: null, user: userKey };
      return { ...of, passportId: limit.per === 'gate' ? null : passportId };
    }
    case 'passport_rate':
    case 'passport_spend':
      return { kind: limit.kind, passportId };
  }
}
