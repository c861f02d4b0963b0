import { unreachable } from '../../shared/errors/assert.ts';
import type { ErrorCode } from '../../shared/errors/catalogue.ts';
import type { PermitResolution } from '../../shared/model/attestation.ts';
import type { HoldExpiry, HoldRule } from '../../shared/model/constraints.ts';
import type { HoldStatus, ServiceOutcome } from '../../shared/model/hold.ts';
import { type MicroUsd, renderUsd } from '../../shared/model/money.ts';
import { renderTime, type UnixMillis } from '../../shared/model/time.ts';
import type { PermitMoney } from '../book/entry.ts';
import { outcomesLimits } from './limits.ts';

/** What the database has of a PERMIT beside its record. */
export interface PermitState {
  /** What it counts now; null: it has no amount. */
  readonly countsMicroUsd: MicroUsd | null;
  readonly hold: {
    readonly amountMicroUsd: MicroUsd;
    readonly status: HoldStatus;
    readonly expiresAtMs: UnixMillis;
  } | null;
  readonly reported: {
    readonly outcome: ServiceOutcome;
    /** As reported; null: all. */
    readonly amountMicroUsd: MicroUsd | null;
    readonly detail: string | null;
    readonly atMs: UnixMillis;
  } | null;
  readonly refundedMicroUsd: MicroUsd;
  /** Taken beyond the hold, and not given back. */
  readonly overrunMicroUsd: MicroUsd;
  readonly isVoid: boolean;
}

/** As the book has it. */
export const moneyOf = ({ countsMicroUsd, hold, overrunMicroUsd }: PermitState): PermitMoney => ({
  own: Math.max(0, (countsMicroUsd ?? 0) - overrunMicroUsd),
  isHeld: hold?.status === 'open',
  overrun: overrunMicroUsd,
});

export type PermitChange =
  | {
      readonly kind: 'outcome';
      readonly outcome: ServiceOutcome;
      readonly amountMicroUsd: MicroUsd | null;
      readonly detail: string | null;
    }
  | { readonly kind: 'expire' }
  | { readonly kind: 'extend'; readonly expiresInMs: number }
  | { readonly kind: 'refund'; readonly amountMicroUsd: MicroUsd | null };

/** What holds for the PERMIT whatever has become of it. */
export interface PermitTerms {
  readonly rule: HoldRule;
  /** The passport belongs to another account than the gate: it never pays more than was held. */
  readonly isForeign: boolean;
  readonly decidedAtMs: UnixMillis;
}

export type ChangeVerdict =
  | {
      readonly kind: 'changed';
      readonly state: PermitState;
      readonly resolution: PermitResolution;
      /** Is taken from windows, beyond the hold. */
      readonly chargeMicroUsd: number;
    }
  /** The first outcome, again, or an end of the hold that it lasts to anyway. */
  | { readonly kind: 'repeated' }
  | { readonly kind: 'refused'; readonly code: ErrorCode; readonly message: string };

/** What becomes of a PERMIT (contract §19). Pure. */
export function changePermit(
  state: PermitState,
  change: PermitChange,
  terms: PermitTerms,
  nowMs: UnixMillis,
): ChangeVerdict {
  if (state.isVoid)
    return conflict('The PERMIT was voided: no client got it as an answer, and its money is back.');
  switch (change.kind) {
    case 'outcome':
      return report(state, change, terms, nowMs);
    case 'expire':
      return expire(state, terms.rule.onExpiry, nowMs);
    case 'extend':
      return extend(state, change.expiresInMs, terms, nowMs);
    case 'refund':
      return refund(state, change.amountMicroUsd);
    default:
      return unreachable(change);
  }
}

function report(
  state: PermitState,
  { outcome, amountMicroUsd, detail }: PermitChange & { readonly kind: 'outcome' },
  terms: PermitTerms,
  nowMs: UnixMillis,
): ChangeVerdict {
  const { reported: first, hold, countsMicroUsd } = state;
  if (first !== null) {
    // All of the hold is all of it, named or not.
    const amountOf = (amount: MicroUsd | null) => amount ?? hold?.amountMicroUsd ?? null;
    const isSame = first.outcome === outcome && amountOf(first.amountMicroUsd) === amountOf(amountMicroUsd);
    return isSame ? { kind: 'repeated' } : conflict(`Its outcome is known already: ${first.outcome}.`);
  }
  const reported = { outcome, amountMicroUsd, detail, atMs: nowMs };
  if (hold === null)
    return changed({ ...state, reported }, 'reported', { before: countsMicroUsd, after: countsMicroUsd });
  if (hold.status !== 'open') {
    return conflict(
      `Its hold ended at ${renderTime(hold.expiresAtMs)} without an outcome. What counts can be refunded.`,
    );
  }
  if (outcome === 'failed') {
    const released = {
      ...state,
      reported,
      hold: { ...hold, status: 'released' as const },
      countsMicroUsd: none,
    };
    return changed(released, 'released', { before: hold.amountMicroUsd, after: none });
  }
  const settles = amountMicroUsd ?? hold.amountMicroUsd;
  const overrun = Math.max(0, settles - hold.amountMicroUsd) as MicroUsd;
  if (overrun > 0 && (terms.rule.overrun === 'refuse' || terms.isForeign))
    return refused(
      'amount_exceeds_hold',
      `${dollars(settles)} is more than the ${dollars(hold.amountMicroUsd)} that are held.`,
    );
  const settled = {
    ...state,
    reported,
    hold: { ...hold, status: 'settled' as const },
    countsMicroUsd: settles,
    overrunMicroUsd: overrun,
  };
  return changed(settled, 'settled', { before: hold.amountMicroUsd, after: settles });
}

function expire(state: PermitState, onExpiry: HoldExpiry, nowMs: UnixMillis): ChangeVerdict {
  const { hold } = state;
  if (hold === null || hold.status !== 'open' || nowMs < hold.expiresAtMs)
    return conflict('Its hold has not come to its end.');
  const after = onExpiry === 'settle' ? hold.amountMicroUsd : none;
  const expired = { ...state, hold: { ...hold, status: 'expired' as const }, countsMicroUsd: after };
  return changed(expired, 'expired', { before: hold.amountMicroUsd, after });
}

function extend(
  state: PermitState,
  expiresInMs: number,
  { decidedAtMs }: PermitTerms,
  nowMs: UnixMillis,
): ChangeVerdict {
  const { hold } = state;
  if (hold === null) return refused('hold_not_found', 'This PERMIT has no hold.');
  if (hold.status !== 'open')
    return conflict(`Its hold is ${hold.status}: only an open one can be extended.`);
  const expiresAtMs = (nowMs + expiresInMs) as UnixMillis;
  if (expiresAtMs > decidedAtMs + outcomesLimits.holdMsMax)
    return refused(
      'invalid_request',
      `A hold lasts 30 days in all: until ${renderTime((decidedAtMs + outcomesLimits.holdMsMax) as UnixMillis)}.`,
    );
  if (expiresAtMs <= hold.expiresAtMs) return { kind: 'repeated' };
  const amount = hold.amountMicroUsd;
  return changed({ ...state, hold: { ...hold, expiresAtMs } }, 'extended', { before: amount, after: amount });
}

function refund(state: PermitState, asked: MicroUsd | null): ChangeVerdict {
  const { hold, countsMicroUsd } = state;
  if (hold?.status === 'open')
    return conflict('Its hold is open: report an outcome, "failed" to release all of it.');
  if (countsMicroUsd === null || countsMicroUsd === 0)
    return refused('amount_exceeds_hold', 'Nothing of this PERMIT counts: there is nothing to refund.');
  const amount = asked ?? countsMicroUsd;
  if (amount === 0) return refused('invalid_request', 'amount must be more than 0.');
  if (amount > countsMicroUsd)
    return refused(
      'amount_exceeds_hold',
      `${dollars(amount)} is more than the ${dollars(countsMicroUsd)} that count.`,
    );
  const after = (countsMicroUsd - amount) as MicroUsd;
  const refunded = {
    ...state,
    countsMicroUsd: after,
    refundedMicroUsd: (state.refundedMicroUsd + amount) as MicroUsd,
    // What was taken beyond the hold goes back first.
    overrunMicroUsd: Math.max(0, state.overrunMicroUsd - amount) as MicroUsd,
  };
  return changed(refunded, 'refunded', { before: countsMicroUsd, after });
}

const changed = (
  state: PermitState,
  resolution: PermitResolution,
  { before, after }: { readonly before: MicroUsd | null; readonly after: MicroUsd | null },
): ChangeVerdict => ({
  kind: 'changed',
  state,
  resolution,
  chargeMicroUsd: Math.max(0, (after ?? 0) - (before ?? 0)),
});

const refused = (code: ErrorCode, message: string): ChangeVerdict => ({ kind: 'refused', code, message });
const conflict = (message: string): ChangeVerdict => refused('outcome_conflict', message);

const none = 0 as MicroUsd;
const dollars = (amount: MicroUsd): string => `${renderUsd(amount)} USD`;
