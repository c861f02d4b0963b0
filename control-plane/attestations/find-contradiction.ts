import { grants } from '../../shared/decision/check-permission.ts';
import { compileRateWindows, compileSpendWindows } from '../../shared/decision/compile-windows.ts';
import type { AttestationRecord } from '../../shared/model/attestation.ts';
import type { CheckName, DecisionReason } from '../../shared/model/decision.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Mode } from '../../shared/model/mode.ts';
import { secondMs, type UnixMillis } from '../../shared/model/time.ts';
import { readStoredConstraints } from '../storage/stored-constraints.ts';

/** What never changes about a passport. */
export interface PassportTerms {
  readonly mode: Mode;
  readonly permissions: ReadonlySet<string>;
  /** What its own constraints make every gate check. */
  readonly ownChecks: readonly CheckName[];
  readonly issuedAtMs: UnixMillis;
  /** Null: it has no end. */
  readonly expiresAtMs: UnixMillis | null;
}

/**
 * How the database contradicts what a sidecar says of a verified passport (contract §9). Returns the field at
 * fault and why, never a value; null where the record can be true. A sidecar that once saw a token must not
 * write into the passport's chain what cannot have happened there.
 *
 * Only facts that never change are used, because a sidecar may be cut off for any time before it ships. So a
 * PERMIT after a revocation is no contradiction: an L1 gate decides on the last state that it knows, however
 * old (contract §4), and `timestamp` shows the reader that it came later. Nor are the rules of the gate
 * looked at: they change, and the sidecar's own account makes them.
 *
 * `mode`: of the gate, without one of the key that asked.
 */
export function findContradiction(
  record: AttestationRecord,
  passport: PassportTerms,
  mode: Mode,
): string | null {
  const { timestampMs, decision, reason } = record;
  // As a decision sees it: the token says whole seconds, and a sidecar whose clock is behind permits a
  // passport that was just issued.
  const issuedAtMs = passport.issuedAtMs - (passport.issuedAtMs % secondMs);
  const hasBegun = timestampMs + limits.notBeforeLeewayMs >= issuedAtMs;
  if (!hasBegun && reason !== 'passport_not_yet_valid')
    return 'timestamp_ms is before passport_id was issued';
  if (hasBegun && reason === 'passport_not_yet_valid') return 'timestamp_ms is after passport_id was issued';
  const hasEnded = passport.expiresAtMs !== null && timestampMs >= passport.expiresAtMs;
  if (hasEnded && reason !== 'passport_expired') return 'timestamp_ms is after the end of passport_id';
  if (!hasEnded && reason === 'passport_expired') return 'timestamp_ms is before the end of passport_id';
  const isOtherMode = passport.mode !== mode;
  if (isOtherMode && !precedesOrIsMode.has(reason)) return 'passport_id is of another mode';
  if (!isOtherMode && reason === 'mode_mismatch') return 'passport_id is of the same mode';
  return decision === 'PERMIT' ? whyNotPermitted(record, passport) : null;
}

/**
 * What a passport of the other mode can be blocked for: the check of the mode itself, and those before it.
 */
const precedesOrIsMode: ReadonlySet<DecisionReason | null> = new Set<DecisionReason>([
  'passport_not_yet_valid',
  'passport_expired',
  'passport_revoked',
  'passport_suspended',
  'mode_mismatch',
]);

function whyNotPermitted(record: AttestationRecord, passport: PassportTerms): string | null {
  const { permissionKey, constraintsEvaluated } = record;
  if (permissionKey !== null && !grants(passport.permissions, permissionKey)) {
    return 'permission_key is not granted by passport_id';
  }
  // A gate that looks for personal data keeps a permission that holds some off the record; every other names
  // it.
  if (record.gateId !== null && permissionKey === null && !constraintsEvaluated.includes('pii_controls')) {
    return 'permission_key is missing';
  }
  const demanded: readonly CheckName[] =
    record.gateId === null ? ['passport', 'issuer'] : ['passport', 'trust_level', 'issuer', 'permission'];
  const isReached = (name: CheckName) => constraintsEvaluated.includes(name);
  if (permissionKey !== null && !isReached('permission')) return lacksCheck;
  return [...demanded, ...passport.ownChecks].every(isReached) ? null : lacksCheck;
}

const lacksCheck = 'constraints_evaluated lacks a check that a PERMIT has to pass';

/** The checks that constraints of a passport, as they lie in its row, put before every PERMIT. */
export function checksOfPassport(constraints: unknown): readonly CheckName[] {
  const { allowedDomains, spendLimits, rateLimits, approvals } = readStoredConstraints(
    constraints,
    'passport',
  );
  const hasSpendLimit =
    (spendLimits !== null && spendLimits.perTransactionMicroUsd !== null) ||
    compileSpendWindows(spendLimits, 'passport').length > 0;
  const own: readonly (readonly [CheckName, boolean])[] = [
    ['domain_allowlist', allowedDomains !== null],
    ['spend_limit', hasSpendLimit],
    ['rate_limit', compileRateWindows(rateLimits, 'passport').length > 0],
    ['approval', approvals !== null],
  ];
  return own.filter(([, isSet]) => isSet).map(([name]) => name);
}
