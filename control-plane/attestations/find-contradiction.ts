import { demandsApproval } from '../../shared/decision/check-approval.ts';
import { grants } from '../../shared/decision/check-permission.ts';
import { type CompiledApprovalRule, compileApprovals } from '../../shared/decision/compile-approvals.ts';
import {
  compileRateWindows,
  compileSpendWindows,
  spendNeedsAmount,
} from '../../shared/decision/compile-windows.ts';
import type { AttestationRecord } from '../../shared/model/attestation.ts';
import type { CheckName, DecisionReason, Outcome } from '../../shared/model/decision.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Mode } from '../../shared/model/mode.ts';
import { amountUsdMax, type MicroUsd, parseUsd } from '../../shared/model/money.ts';
import { secondMs, type UnixMillis } from '../../shared/model/time.ts';
import type { WindowLimit } from '../../shared/quota/window-limit.ts';
import { tryStoredConstraints } from '../storage/stored-constraints.ts';

/** Requirements of a passport's constraints on every decision. They never change. */
export interface OwnRules {
  /** The checks that they require at every gate. */
  readonly checks: readonly CheckName[];
  readonly spendWindows: readonly WindowLimit[];
  readonly rateWindows: readonly WindowLimit[];
  readonly perTransactionMicroUsd: MicroUsd | null;
  readonly approvals: CompiledApprovalRule | null;
  /** A request without an amount is blocked. */
  readonly needsAmount: boolean;
}

/** The immutable facts of a passport. */
export interface PassportTerms {
  readonly mode: Mode;
  /** Of another issuer: times and permissions are those of a token that is gone. */
  readonly isFederated: boolean;
  readonly permissions: ReadonlySet<string>;
  /** Null: the row is unreadable. */
  readonly own: OwnRules | null;
  readonly issuedAtMs: UnixMillis;
  /** Null: never. */
  readonly expiresAtMs: UnixMillis | null;
}

/** A decision reported by a sidecar, as a record or a settlement. */
export interface ToldDecision
  extends Pick<
    AttestationRecord,
    'timestampMs' | 'reason' | 'gateId' | 'permissionKey' | 'amountMicroUsd' | 'constraintsEvaluated'
  > {
  readonly decision: Outcome;
}

/**
 * How the database contradicts a sidecar's report about a verified passport (contract §9). Returns the field
 * at fault and why, never a value; null if the report is plausible. A sidecar that once saw a token must not
 * write impossible decisions into the passport's chain. Judges records, and permits and suspends that are to
 * be settled.
 *
 * Uses immutable facts only, because a sidecar may be offline for any time before it ships. So a PERMIT after
 * a revocation is no contradiction: an L1 gate decides on its last known state, however old (contract §4),
 * and `timestamp` shows the reader that it came later. The gate's rules are ignored: they change, and belong
 * to the sidecar's own account.
 *
 * `mode`: of the gate, or of the requesting key without one. `mayBeApproved`: an approval comes with the
 * PERMIT, or may be among what it took.
 */
export function findContradiction(
  told: ToldDecision,
  passport: PassportTerms,
  { mode, mayBeApproved }: { readonly mode: Mode; readonly mayBeApproved: boolean },
): string | null {
  const { decision, reason } = told;
  const timeFault = passport.isFederated ? null : whyNotThen(told, passport);
  if (timeFault !== null) return timeFault;
  const isOtherMode = passport.mode !== mode;
  if (isOtherMode && !precedesOrIsMode.has(reason)) return 'passport_id is of another mode';
  if (!isOtherMode && reason === 'mode_mismatch') return 'passport_id is of the same mode';
  if (decision === 'BLOCK') return null;
  const { own } = passport;
  if (own === null) return 'the constraints in the row of passport_id cannot be read';
  return (
    whyNotReached(told, passport, own) ?? whyNotAmount(told, own) ?? whyNotDecided(told, own, mayBeApproved)
  );
}

/** Whether the passport had begun and not ended then, as the reason says. */
function whyNotThen(
  { timestampMs, reason }: ToldDecision,
  passport: Pick<PassportTerms, 'issuedAtMs' | 'expiresAtMs'>,
): string | null {
  // As in a decision: tokens carry whole seconds, and a sidecar with a slow clock permits a passport that was
  // just issued.
  const issuedAtMs = passport.issuedAtMs - (passport.issuedAtMs % secondMs);
  const hasBegun = timestampMs + limits.notBeforeLeewayMs >= issuedAtMs;
  if (!hasBegun && reason !== 'passport_not_yet_valid')
    return 'timestamp_ms is before passport_id was issued';
  if (hasBegun && reason === 'passport_not_yet_valid') return 'timestamp_ms is after passport_id was issued';
  const hasEnded = passport.expiresAtMs !== null && timestampMs >= passport.expiresAtMs;
  if (hasEnded && reason !== 'passport_expired') return 'timestamp_ms is after the end of passport_id';
  if (!hasEnded && reason === 'passport_expired') return 'timestamp_ms is before the end of passport_id';
  return null;
}

/**
 * Possible reasons for a BLOCK of a passport of the other mode: the mode check, and the checks before it.
 */
const precedesOrIsMode: ReadonlySet<DecisionReason | null> = new Set<DecisionReason>([
  'passport_not_yet_valid',
  'passport_expired',
  'passport_revoked',
  'passport_suspended',
  'mode_mismatch',
]);

/** A SUSPEND passes every check of a PERMIT except the last. */
function whyNotReached(
  told: ToldDecision,
  { permissions, isFederated }: Pick<PassportTerms, 'permissions' | 'isFederated'>,
  own: OwnRules,
): string | null {
  const { permissionKey, constraintsEvaluated, gateId, decision } = told;
  if (permissionKey !== null && !isFederated && !grants(permissions, permissionKey)) {
    return 'permission_key is not granted by passport_id';
  }
  // A gate with PII controls omits a permission that contains personal data; all others record it.
  if (gateId !== null && permissionKey === null && !constraintsEvaluated.includes('pii_controls')) {
    return 'permission_key is missing';
  }
  const isReached = (name: CheckName) => constraintsEvaluated.includes(name);
  if (permissionKey !== null && !isReached('permission')) return lacksCheck;
  if (decision === 'SUSPEND' && !isReached('approval')) return lacksCheck;
  const demanded = gateId === null ? checksWithoutGate : checksAtGate;
  return demanded.every(isReached) && own.checks.every(isReached) ? null : lacksCheck;
}

const checksWithoutGate: readonly CheckName[] = ['passport', 'issuer'];
const checksAtGate: readonly CheckName[] = ['passport', 'trust_level', 'issuer', 'permission'];
const lacksCheck = 'constraints_evaluated lacks a check that a PERMIT has to pass';

function whyNotAmount(
  { amountMicroUsd }: ToldDecision,
  { perTransactionMicroUsd, needsAmount }: OwnRules,
): string | null {
  if (amountMicroUsd === null) return needsAmount ? 'amount_micro_usd is missing' : null;
  if (amountMicroUsd > amountMax) return 'amount_micro_usd is more than a request may name';
  return perTransactionMicroUsd !== null && amountMicroUsd > perTransactionMicroUsd
    ? 'amount_micro_usd is more than passport_id may spend at once'
    : null;
}

const amountMax = parseUsd(amountUsdMax) ?? 0;

function whyNotDecided(
  { decision, gateId, permissionKey, amountMicroUsd }: ToldDecision,
  { approvals }: OwnRules,
  mayBeApproved: boolean,
): string | null {
  // Without a gate there is no approval.
  if (decision === 'SUSPEND') return gateId === null ? 'gate_id is missing' : null;
  // A standing approval would be in a lease that it took from (quota/judge-takes.ts).
  return !mayBeApproved && needsApproval({ permissionKey, amountMicroUsd }, approvals)
    ? 'an approval that passport_id asks for is missing'
    : null;
}

/** Whether the passport's own rule asks for an approval of such a request. */
export const needsApproval = (
  { permissionKey, amountMicroUsd }: Pick<ToldDecision, 'permissionKey' | 'amountMicroUsd'>,
  approvals: OwnRules['approvals'],
): boolean => approvals !== null && demandsApproval(approvals, permissionKey, amountMicroUsd);

/** The requirements of a passport's stored constraints; null if unreadable. */
export function ownRules(constraints: unknown): OwnRules | null {
  const read = tryStoredConstraints(constraints, 'passport');
  if (read === null) return null;
  const { proofOfPossession, conditions, allowedDomains, spendLimits, rateLimits } = read;
  const spendWindows = compileSpendWindows(spendLimits, 'passport');
  const rateWindows = compileRateWindows(rateLimits, 'passport');
  const approvals = compileApprovals(read);
  const perTransactionMicroUsd = spendLimits?.perTransactionMicroUsd ?? null;
  const own: readonly (readonly [CheckName, boolean])[] = [
    ['proof_of_possession', proofOfPossession !== 'off'],
    ['conditions', conditions.length > 0],
    ['domain_allowlist', allowedDomains !== null],
    ['spend_limit', perTransactionMicroUsd !== null || spendWindows.length > 0],
    ['rate_limit', rateWindows.length > 0],
    ['approval', approvals !== null],
  ];
  return {
    checks: own.filter(([, isSet]) => isSet).map(([name]) => name),
    spendWindows,
    rateWindows,
    perTransactionMicroUsd,
    approvals,
    needsAmount: spendNeedsAmount(spendLimits) || approvals?.needsAmount === true,
  };
}
