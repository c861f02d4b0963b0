import { isJsonObject, type JsonObject } from '../../shared/crypto/json-object.ts';
import type { Federation } from '../../shared/model/federation.ts';
import { limits } from '../../shared/model/limits.ts';
import { isLabel } from '../../shared/model/plain-text.ts';
import { secondMs, type UnixMillis } from '../../shared/model/time.ts';
import { federationLimits } from './limits.ts';

/** What a happening does to those it is about. */
type Effect = 'suspend' | 'reactivate';

const caep = 'https://schemas.openid.net/secevent/caep/event-type/';
const risc = 'https://schemas.openid.net/secevent/risc/event-type/';
const effects: ReadonlyMap<string, Effect> = new Map<string, Effect>([
  [`${caep}session-revoked`, 'suspend'],
  [`${caep}credential-change`, 'suspend'],
  [`${risc}account-disabled`, 'suspend'],
  [`${risc}account-enabled`, 'reactivate'],
]);

/** One who is suspended or reactivated: a subject of the issuer, or an owner of passports. */
export interface Target {
  readonly kind: 'subject' | 'owner';
  readonly name: string;
  readonly effect: Effect;
}

export interface SecurityEvent {
  readonly jti: string;
  readonly issuedAtMs: UnixMillis;
  /** Every type in it, known or not. */
  readonly types: readonly string[];
  readonly targets: readonly Target[];
}

/**
 * The claims of a security event token (RFC 8417) whose signature verified. A text says why it is refused.
 * Types that are not known have no effect, and neither has a subject that no claim of this issuer maps.
 */
export function readEvent(
  payload: JsonObject,
  federation: Federation,
  nowMs: UnixMillis,
): SecurityEvent | string {
  const { iss, aud, jti, iat, events, sub_id: subjectOfAll } = payload;
  if (federation.type !== 'jwt-svid' && iss !== federation.issuer) return 'iss is another issuer';
  const named = Array.isArray(aud) ? aud : [aud];
  if (!named.some((each) => federation.audiences.includes(String(each)))) return 'aud is another receiver';
  if (!isLabel(jti, federationLimits.eventIdCharsMax))
    return 'jti is missing, too long, or has characters that are not text';
  if (typeof iat !== 'number') return 'iat is missing';
  const issuedAtMs = Math.floor(iat * secondMs) as UnixMillis;
  const ageMs = nowMs - issuedAtMs;
  if (!(ageMs <= federationLimits.eventAgeMsMax)) return 'iat is too long ago';
  if (ageMs < -federationLimits.eventAheadMsMax) return 'iat is in the future';
  if (!isJsonObject(events)) return 'events is missing';
  const entries = Object.entries(events);
  if (entries.length === 0 || entries.length > federationLimits.eventTypesMax)
    return `events must have 1 to ${federationLimits.eventTypesMax} members`;
  const targets = entries.flatMap(([type, event]) => {
    const effect = effects.get(type);
    if (effect === undefined) return [];
    const subject = (isJsonObject(event) ? event['subject'] : undefined) ?? subjectOfAll;
    return targetsOf(subject, federation).map((target) => ({ ...target, effect }));
  });
  const types = entries.map(([type]) => type.slice(0, limits.webhookUrlCharsMax));
  return { jti, issuedAtMs, types, targets };
}

/**
 * Those whom a subject identifier (RFC 9493) means, by the claims that name subjects and owners here. A
 * complex one (Shared Signals §3.2) means its user. Text that no label can be means nobody.
 */
function targetsOf(identifier: unknown, federation: Federation): Omit<Target, 'effect'>[] {
  if (!isJsonObject(identifier)) return [];
  const { claims, issuer } = federation;
  const format = identifier['format'] ?? identifier['subject_type'];
  const { user, iss, sub, id, email, uri } = identifier;
  const isComplex = format === 'complex' || (format === undefined && user !== undefined);
  // One level: a user is no complex subject.
  if (isComplex) return isJsonObject(user) && user['user'] === undefined ? targetsOf(user, federation) : [];
  const isOfIssuer = format === 'iss_sub' || format === 'iss-sub';
  const [value, pointers] =
    format === 'email'
      ? [email, addressClaims]
      : [isOfIssuer ? (iss === issuer ? sub : null) : (id ?? uri), subjectClaims];
  const targets: Omit<Target, 'effect'>[] = [];
  if (pointers.has(claims.agentId) && isLabel(value, limits.foreignSubjectCharsMax))
    targets.push({ kind: 'subject', name: value });
  if (claims.owner !== null && pointers.has(claims.owner) && isLabel(value, limits.ownerCharsMax))
    targets.push({ kind: 'owner', name: value });
  return targets;
}

/** The claims whose values such an identifier names. */
const subjectClaims: ReadonlySet<string> = new Set(['/sub']);
const addressClaims: ReadonlySet<string> = new Set(['/email', '/preferred_username', '/upn']);
