import type { DecisionReason } from '../model/decision.ts';
import { areKeysStale } from '../model/federation.ts';
import { limits } from '../model/limits.ts';
import type { Mode } from '../model/mode.ts';
import { toMillis, type UnixMillis } from '../model/time.ts';
import type { PassportStanding, VerifiedPassport } from './facts.ts';

/**
 * Whether a verified passport is valid here and now. A compromised key, or one that is too old, comes before
 * the times, because nothing it signed is trusted, including times; openToken uses the same order. The rest
 * follows contract §5: times, revocation, status, mode.
 */
export function checkPassport(
  passport: VerifiedPassport,
  standing: PassportStanding,
  here: { readonly mode: Mode },
  nowMs: UnixMillis,
): DecisionReason | null {
  if (standing.isKeyCompromised) return 'passport_unknown_key';
  if (passport.source !== null && areKeysStale(passport.source, nowMs)) return 'issuer_keys_stale';
  if (nowMs + limits.notBeforeLeewayMs < toMillis(passport.notBeforeS)) return 'passport_not_yet_valid';
  if (passport.expiresAtS !== null && nowMs >= toMillis(passport.expiresAtS)) return 'passport_expired';
  if (standing.status === 'revoked') return 'passport_revoked';
  if (standing.status === 'suspended' || standing.isAccountSuspended) return 'passport_suspended';
  if (passport.mode !== here.mode) return 'mode_mismatch';
  return null;
}
