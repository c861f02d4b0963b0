import { agentKeyOfJwk } from '../crypto/agent-key.ts';
import { sha256Hex } from '../crypto/content-hash.ts';
import { federatedPassportId } from '../crypto/federated-id.ts';
import { openForeignToken } from '../crypto/foreign-token.ts';
import { isJsonObject, type JsonObject } from '../crypto/json-object.ts';
import { compilePassport } from '../decision/compile-passport.ts';
import type { Mode } from '../model/mode.ts';
import { digestsOf, issuerOf, permissionSetOf, userKeyIn } from './common-parts.ts';
import type { ForeignIssuer, KnownIssuers } from './foreign-issuers.ts';
import { isMapped, type MappedClaims, mapClaims } from './map-claims.ts';
import { type OpenedForeignToken, type RefusedToken, refused, type TokenVerdict } from './verify-token.ts';

/**
 * The steps before the signature, for what is no token of this service: shape, algorithm, the one issuer of
 * others that `iss` and `aud` fit, its key. Never throws. `onUnknownKey`: learns of an issuer without the
 * key, which may have changed its keys.
 */
export function openOfOthers(
  token: string,
  issuers: KnownIssuers,
  mode: Mode,
  onUnknownKey: (issuer: ForeignIssuer) => void = () => undefined,
): RefusedToken | OpenedForeignToken {
  // As before anybody registered an issuer of others: another form than that of our tokens.
  if (issuers.size === 0) return refused('passport_malformed');
  const open = openForeignToken(token);
  if (typeof open === 'string') return refused('passport_malformed', { claim: 'header', detail: open });
  const missing = neededClaims.find((claim) => open.payload[claim] === undefined);
  if (missing !== undefined)
    return refused('passport_malformed', { claim: missing, detail: `${missing} is missing` });
  const issuer = issuers.pick(open.payload, mode);
  if (issuer === null) return refused('issuer_untrusted');
  const key = issuer.find(open.kid, open.algorithm);
  if (key !== null) return { kind: 'foreign', open, key, issuer, among: issuers.name };
  onUnknownKey(issuer);
  const detail = `the issuer has no single key of that kid for ${open.algorithm}`;
  return refused('passport_unknown_key', { claim: 'header.kid', detail });
}

const neededClaims = ['aud', 'exp'] as const;

/** The steps after it: the signature's result, then what the claims become. */
export function admitOfOthers(opened: OpenedForeignToken, signatureIsValid: boolean): TokenVerdict {
  if (!signatureIsValid)
    return refused('passport_signature_invalid', { claim: 'signature', detail: 'it does not verify' });
  const mapped = mapClaims(opened.open.payload, opened.issuer.federation);
  if (!isMapped(mapped)) return refused(mapped.reason, mapped);
  return { kind: 'verified', passport: compileOfOthers(opened, mapped) };
}

/** RFC 7800: the key with which its holder proves possession. Empty: the token names none by value. */
const agentKeyIn = ({ cnf }: JsonObject): string =>
  isJsonObject(cnf) ? (agentKeyOfJwk(cnf['jwk']) ?? '') : '';

/** What conditions read of a token: not what differs in each token of a subject. */
function withoutTimes({ iat: _iat, exp: _exp, nbf: _nbf, jti: _jti, ...claims }: JsonObject): JsonObject {
  return claims;
}

function compileOfOthers({ issuer, open, key, among }: OpenedForeignToken, mapped: MappedClaims) {
  const passportId = federatedPassportId(issuer.issuerId, mapped.subject);
  const parts = issuerOf(issuer);
  const claims = {
    passportId,
    issuerId: parts.issuerId,
    issuerDomain: null,
    accountId: parts.accountId,
    mode: issuer.mode,
    agentId: mapped.subject,
    agentName: mapped.subject,
    permissions: mapped.permissions,
    trustTier: mapped.trustTier,
    constraints: issuer.federation.constraints,
    issuedAtS: mapped.notBeforeS,
    notBeforeS: mapped.notBeforeS,
    expiresAtS: mapped.expiresAtS,
    publicKey: agentKeyIn(open.payload),
    owner: mapped.owner,
    user: mapped.user,
    hasWallet: issuer.hasWallets,
  };
  return compilePassport(claims, {
    keyId: key.kid ?? '',
    tokenHash: sha256Hex(open.token),
    digests: digestsOf(claims, parts, mapped.user),
    permissions: permissionSetOf(mapped.permissions),
    conditions: issuer.conditions,
    foreignClaims: withoutTimes(open.payload),
    source: issuer,
    actors: mapped.actors,
    userKey: userKeyIn(claims),
    among,
  });
}
