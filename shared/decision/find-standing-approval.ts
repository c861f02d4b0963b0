import type { AccountId } from '../model/ids.ts';
import type { MicroUsd } from '../model/money.ts';
import type { StandingApprovalTerms } from '../model/standing-approval.ts';
import type { UnixMillis } from '../model/time.ts';
import type { QuotaView, RequestFacts, VerifiedPassport } from './facts.ts';

/** A standing approval that permits the request: `isAtHand`, or once more units of it were asked for. */
interface FoundStandingApproval {
  readonly terms: StandingApprovalTerms;
  readonly isAtHand: boolean;
}

type NamedPassport = Pick<VerifiedPassport, 'passportId' | 'accountId' | 'owner'>;

/** Whose request it is, and the account of the gate. */
interface AskedFor {
  readonly passport: NamedPassport;
  readonly gateAccountId: AccountId;
}

/**
 * A standing approval that answers for a person (contract §8). Null: a person has to. One with units at hand
 * is taken before one that has to be asked for, else in the order given.
 *
 * A request without an amount, or of 0, fits none: no total would bound how many there are.
 */
export function findStandingApproval(
  { standingApprovals }: QuotaView,
  { passport, gateAccountId }: AskedFor,
  { permissionKey }: Pick<RequestFacts, 'permissionKey'>,
  amount: MicroUsd | null,
  nowMs: UnixMillis,
): FoundStandingApproval | null {
  if (amount === null || amount === 0) return null;
  let unknown: StandingApprovalTerms | null = null;
  for (const { terms, window } of standingApprovals) {
    if (!isFor(terms, passport, gateAccountId) || terms.permissionKey !== permissionKey) continue;
    if (amount > terms.eachMicroUsd || nowMs >= terms.expiresAtMs) continue;
    if (amount <= window.available) return { terms, isAtHand: true };
    if (!window.isFinal) unknown ??= terms;
  }
  return unknown === null ? null : { terms: unknown, isAtHand: false };
}

/** Whether requests of the passport may draw on it. An account names owners of its own passports alone. */
export const isFor = (
  { passportId, owner }: StandingApprovalTerms,
  passport: NamedPassport,
  gateAccountId: AccountId,
): boolean =>
  owner === null
    ? passportId === passport.passportId
    : owner === passport.owner && passport.accountId === gateAccountId;
