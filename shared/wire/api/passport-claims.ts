import { agentKeyOfJwk, jwkOfAgentKey } from '../../crypto/agent-key.ts';
import { ApiError } from '../../errors/api-error.ts';
import { must } from '../../errors/assert.ts';
import type { Constraints } from '../../model/constraints.ts';
import { isId } from '../../model/ids.ts';
import { limits } from '../../model/limits.ts';
import { isMode } from '../../model/mode.ts';
import type { PassportClaims } from '../../model/passport-claims.ts';
import {
  isGrantablePermission,
  type PermissionKey,
  permissionsPerPassportMax,
} from '../../model/permission.ts';
import { isUnixMillis, secondMs, type UnixSeconds } from '../../model/time.ts';
import { isTrustTier } from '../../model/trust-tier.ts';
import { parseNewConstraints, renderConstraints } from './constraints.ts';
import { canonicalName } from './email.ts';

/**
 * Among the constraints of a token: it draws on a wallet, which only the control plane knows. Version 0.2.0,
 * which knows no wallets, takes it for a constraint that it cannot enforce, and blocks the passport.
 */
const walletClaim = 'wallet';

/** The payload of a passport token (contract §3). A passport that never expires has no `exp`. */
export const renderPassportClaims = (claims: PassportClaims) => ({
  iss: claims.issuerId,
  iss_domain: claims.issuerDomain,
  sub: claims.agentId,
  jti: claims.passportId,
  iat: claims.issuedAtS,
  nbf: claims.notBeforeS,
  ...(claims.expiresAtS === null ? {} : { exp: claims.expiresAtS }),
  agent_name: claims.agentName,
  permissions: claims.permissions,
  trust_tier: claims.trustTier,
  constraints: {
    ...renderConstraints(claims.constraints),
    ...(claims.hasWallet && { [walletClaim]: true }),
  },
  acct: claims.accountId,
  mode: claims.mode,
  cnf: { jwk: renderAgentKey(claims.publicKey) },
  ...(claims.owner === null ? {} : { owner: claims.owner }),
  ...(claims.user === null ? {} : { user: claims.user }),
});

/**
 * Reads the payload of a token whose signature verified. Null, for `passport_malformed`, if a claim is
 * missing or of the wrong type, or if its constraints hold something that this build does not know or
 * enforce. Unknown claims are ignored, as RFC 7519 §4 asks: a newer control plane may add some, and none may
 * restrict, because restrictions are in `constraints`.
 */
export function parsePassportClaims(payload: Readonly<Record<string, unknown>>): PassportClaims | null {
  const {
    iss,
    iss_domain: domain = null,
    sub,
    jti,
    iat,
    nbf,
    exp = null,
    agent_name: name,
    acct,
    mode,
    owner = null,
    user = null,
  } = payload;
  if (!isId('iss', iss) || !isId('pass', jti) || !isId('acct', acct) || !isMode(mode)) return null;
  if (!isText(sub, limits.agentIdCharsMax) || !isText(name, limits.nameCharsMax)) return null;
  if (domain !== null && !isText(domain, limits.domainCharsMax)) return null;
  if (owner !== null && !isText(owner, limits.ownerCharsMax)) return null;
  if (user !== null && !isText(user, limits.userCharsMax)) return null;
  if (!isNumericDate(iat) || !isNumericDate(nbf) || (exp !== null && !isNumericDate(exp))) return null;
  if (!isTrustTier(payload['trust_tier'])) return null;
  const permissions = readPermissions(payload['permissions']);
  const hasWallet = isObject(payload['constraints']) && payload['constraints'][walletClaim] === true;
  const constraints = readConstraints(
    hasWallet ? withoutWallet(payload['constraints']) : payload['constraints'],
  );
  const publicKey = readAgentKey(payload['cnf']);
  if (permissions === null || constraints === null || publicKey === null) return null;
  return {
    passportId: jti,
    issuerId: iss,
    issuerDomain: domain,
    accountId: acct,
    mode,
    agentId: sub,
    agentName: name,
    permissions,
    trustTier: payload['trust_tier'],
    constraints,
    hasWallet,
    issuedAtS: iat,
    notBeforeS: nbf,
    expiresAtS: exp,
    publicKey,
    owner: canonicalName(owner),
    user: canonicalName(user),
  };
}

function withoutWallet(constraints: unknown): unknown {
  const { [walletClaim]: _, ...others } = constraints as Readonly<Record<string, unknown>>;
  return others;
}

const isText = (value: unknown, charsMax: number): value is string =>
  typeof value === 'string' && value.length >= 1 && value.length <= charsMax;

/** RFC 7519 NumericDate, in whole seconds. */
const isNumericDate = (value: unknown): value is UnixSeconds =>
  typeof value === 'number' && Number.isSafeInteger(value) && isUnixMillis(value * secondMs);

function readPermissions(value: unknown): readonly PermissionKey[] | null {
  if (!Array.isArray(value) || value.length > permissionsPerPassportMax) return null;
  return value.every(isGrantablePermission) ? value : null;
}

function readConstraints(value: unknown): Constraints | null {
  try {
    return parseNewConstraints(value, { param: 'constraints', of: 'passport' });
  } catch (error) {
    if (error instanceof ApiError) return null;
    throw error;
  }
}

/** RFC 7800: the key with which the agent proves possession of the passport. */
const renderAgentKey = (publicKey: string) =>
  must(jwkOfAgentKey(publicKey), 'a passport holds a usable agent key');

const readAgentKey = (value: unknown): string | null =>
  isObject(value) ? agentKeyOfJwk(value['jwk']) : null;

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
