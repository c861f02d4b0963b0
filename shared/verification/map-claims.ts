import { isJsonObject, type JsonObject } from '../crypto/json-object.ts';
import {
  type Delegate,
  type Federation,
  foreignLifetimeMsMax,
  type JsonPointer,
} from '../model/federation.ts';
import { limits } from '../model/limits.ts';
import { isGrantablePermission, type PermissionKey, permissionsPerPassportMax } from '../model/permission.ts';
import { isUnixMillis, secondMs, type UnixSeconds } from '../model/time.ts';
import { isTrustTier, reachesTier, type TrustTier, trustTiers } from '../model/trust-tier.ts';
import { canonicalName } from '../wire/api/email.ts';
import { isNameOf } from './name-form.ts';
import type { TokenFault } from './verify-token.ts';

/** What the claims of a token become. Subject, owner and user in the form in which names are compared. */
export interface MappedClaims {
  readonly subject: string;
  readonly owner: string | null;
  readonly user: string | null;
  readonly actors: readonly Delegate[];
  readonly permissions: readonly PermissionKey[];
  readonly trustTier: TrustTier;
  readonly notBeforeS: UnixSeconds;
  readonly expiresAtS: UnixSeconds;
}

/** Why claims make no passport. */
export interface UnmappedClaims extends TokenFault {
  readonly reason: 'passport_malformed' | 'issuer_untrusted';
}

export const isMapped = (mapped: MappedClaims | UnmappedClaims): mapped is MappedClaims =>
  !('reason' in mapped);

/**
 * Maps the claims of a token of this issuer (contract §4). What is configured and has another form than it
 * must have makes no passport: an owner that is misread could not be suspended, nor a user be limited. A tier
 * that is absent is L1, and permissions that the map does not name are none.
 */
export function mapClaims(payload: JsonObject, federation: Federation): MappedClaims | UnmappedClaims {
  const times = readTimes(payload);
  if ('reason' in times) return times;
  const { claims } = federation;
  // Its trust domain was compared already, and the rest of it must not lead elsewhere.
  if (federation.type === 'jwt-svid' && !isNameOf(payload['sub'], limits.foreignSubjectCharsMax))
    return malformed('/sub', 'must be a SPIFFE ID');
  const subject = valueAt(payload, claims.agentId);
  if (!isNameOf(subject, limits.foreignSubjectCharsMax))
    return malformed(claims.agentId, nameDemand(limits.foreignSubjectCharsMax));
  if (federation.subjects !== null && !federation.subjects.some((pattern) => matches(pattern, subject)))
    return { reason: 'issuer_untrusted', claim: claims.agentId, detail: 'fits no pattern in subjects' };
  const owner = claims.owner === null ? null : (valueAt(payload, claims.owner) ?? null);
  if (owner !== null && !isNameOf(owner, limits.ownerCharsMax))
    return malformed(claims.owner ?? 'owner', nameDemand(limits.ownerCharsMax));
  const user = claims.user === null ? null : (valueAt(payload, claims.user) ?? null);
  if (user !== null && !isNameOf(user, limits.userCharsMax))
    return malformed(claims.user ?? 'user', nameDemand(limits.userCharsMax));
  const permissions = readPermissions(payload, federation);
  const permissionsClaim = claims.permissions ?? 'permissions';
  if (permissions === null)
    return malformed(permissionsClaim, 'must be a list of texts, or texts with blanks between them');
  if (permissions.length > permissionsPerPassportMax)
    return malformed(permissionsClaim, `grants more than ${permissionsPerPassportMax} permissions`);
  const trustTier = readTier(payload, federation);
  if (trustTier === null)
    return malformed(claims.trustTier ?? 'trust_tier', `must be one of ${trustTiers.join(', ')}`);
  const names = {
    subject: canonicalName(subject),
    owner: canonicalName(owner),
    user: canonicalName(user),
  };
  return { ...names, actors: readActors(payload), permissions, trustTier, ...times };
}

/**
 * The chain of `act`, from who acts now to who did first. Nothing is decided by it, so a link that has not
 * the form of one ends it, and makes no other passport of a token than before.
 */
function readActors(payload: JsonObject): readonly Delegate[] {
  const actors: Delegate[] = [];
  for (let act = payload['act']; isJsonObject(act) && actors.length < limits.actorsMax; act = act['act']) {
    const { iss = null, sub } = act;
    if (!isNameOf(sub, limits.userCharsMax)) break;
    if (iss !== null && !isNameOf(iss, limits.webhookUrlCharsMax)) break;
    actors.push({ iss, sub });
  }
  return actors;
}

const malformed = (claim: string, detail: string): UnmappedClaims => ({
  reason: 'passport_malformed',
  claim,
  detail,
});

const nameDemand = (charsMax: number): string =>
  `must be a text of 1 to ${charsMax} characters, and a URI in it of one form only`;

/**
 * `exp` is needed. A token without `iat` and `nbf` counts from the longest lifetime before its end, so that
 * it is not valid yet while it has longer to live.
 */
function readTimes({
  exp,
  nbf = null,
  iat = null,
}: JsonObject): Pick<MappedClaims, 'notBeforeS' | 'expiresAtS'> | UnmappedClaims {
  if (!isNumericDate(exp)) return malformed('/exp', 'is missing, or is no time');
  if (nbf !== null && !isNumericDate(nbf)) return malformed('/nbf', 'is no time');
  if (iat !== null && !isNumericDate(iat)) return malformed('/iat', 'is no time');
  const lifetimeS = foreignLifetimeMsMax / secondMs;
  const earliestS = Math.min(iat ?? nbf ?? exp - lifetimeS, nbf ?? Number.POSITIVE_INFINITY);
  if (exp - earliestS > lifetimeS)
    return malformed('/exp', `is more than ${lifetimeS} seconds after the token begins`);
  const notBeforeS = Math.max(iat ?? nbf ?? earliestS, nbf ?? 0);
  return { notBeforeS: Math.floor(notBeforeS) as UnixSeconds, expiresAtS: Math.floor(exp) as UnixSeconds };
}

/** RFC 7519 §2: may have a fraction. */
const isNumericDate = (value: unknown): value is number =>
  typeof value === 'number' && isUnixMillis(Math.floor(value) * secondMs);

/** Null: the claim has another form. */
function readPermissions(payload: JsonObject, federation: Federation): readonly PermissionKey[] | null {
  const { claims, permissionMap, permissions } = federation;
  const granted = new Set(permissions);
  const values = claims.permissions === null ? [] : textsOf(valueAt(payload, claims.permissions));
  if (values === null) return null;
  for (const value of values) {
    if (permissionMap === null) {
      if (isGrantablePermission(value)) granted.add(value);
    } else if (Object.hasOwn(permissionMap, value)) {
      for (const permission of permissionMap[value] ?? []) granted.add(permission);
    }
  }
  return [...granted];
}

/** A list of texts, or one with blanks between them, as `scope` has them (RFC 8693 §4.2). Absent: none. */
function textsOf(value: unknown): readonly string[] | null {
  if (value === undefined || value === null) return [];
  if (typeof value === 'string') return value.split(' ').filter((text) => text !== '');
  if (!Array.isArray(value)) return null;
  return value.every((each): each is string => typeof each === 'string') ? value : null;
}

/** Null: the claim has another form. */
function readTier(payload: JsonObject, { claims, trustTier }: Federation): TrustTier | null {
  if (claims.trustTier === null) return trustTier;
  const claimed = valueAt(payload, claims.trustTier) ?? 'L1';
  if (!isTrustTier(claimed)) return null;
  return reachesTier(trustTier, claimed) ? claimed : trustTier;
}

/** What a pointer leads to that goes into a text or a number: no claim, and none of the form of one. */
const misplaced = Symbol('misplaced');

/** The value that an RFC 6901 pointer leads to; undefined: none. */
export function valueAt(value: unknown, pointer: JsonPointer): unknown {
  let at = value;
  for (const step of pointer.split('/').slice(1)) {
    if (at === null) return undefined;
    if (typeof at !== 'object') return misplaced;
    const name = step.replaceAll('~1', '/').replaceAll('~0', '~');
    if (!Object.hasOwn(at, name)) return undefined;
    at = (at as Readonly<Record<string, unknown>>)[name];
  }
  return at;
}

/** Whether the whole text fits the pattern, in which `*` stands for any characters. */
export function matches(pattern: string, text: string): boolean {
  const [first = '', ...parts] = pattern.split('*');
  const last = parts.pop();
  if (last === undefined) return text === first;
  if (text.length < first.length + last.length) return false;
  if (!text.startsWith(first) || !text.endsWith(last)) return false;
  // The leftmost place of each part leaves the most for those after it.
  let at = first.length;
  for (const part of parts) {
    const found = text.indexOf(part, at);
    if (found === -1) return false;
    at = found + part.length;
  }
  return at <= text.length - last.length;
}
