import type { PassportId } from '../model/ids.ts';
import type { MicroUsd } from '../model/money.ts';
import type { StandingApprovalTerms } from '../model/standing-approval.ts';
import type { UnixMillis } from '../model/time.ts';
import type { QuotaView, RequestFacts, VerifiedPassport } from './facts.ts';

/** A standing approval that permits the request: `isAtHand`, or once more units of it were asked for. */
interface FoundStandingApproval {
  readonly terms: StandingApprovalTerms;
  readonly isAtHand: boolean;
}

/**
 * A standing approval that answers for a person (contract §8). Null: a person has to. One with units at hand
 * is taken before one that has to be asked for, else in the order given.
 *
 * A request without an amount, or of 0, fits none: no total would bound how many there are.
 */
export function findStandingApproval(
  { standingApprovals }: QuotaView,
  { passportId }: Pick<VerifiedPassport, 'passportId'>,
  { permissionKey }: Pick<RequestFacts, 'permissionKey'>,
  amount: MicroUsd | null,
  nowMs: UnixMillis,
): FoundStandingApproval | null {
  if (amount === null || amount === 0) return null;
  let unknown: StandingApprovalTerms | null = null;
  for (const { terms, window } of standingApprovals) {
    if (!isFor(terms, passportId) || terms.permissionKey !== permissionKey) continue;
    if (amount > terms.eachMicroUsd || nowMs >= terms.expiresAtMs) continue;
    if (amount <= window.available) return { terms, isAtHand: true };
    if (!window.isFinal) unknown ??= terms;
  }
  return unknown === null ? null : { terms: unknown, isAtHand: false };
}

/** Whether requests of the passport may draw on it. */
export const isFor = ({ passportId }: StandingApprovalTerms, of: PassportId): boolean => passportId === of;
