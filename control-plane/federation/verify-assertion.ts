import { federatedPassportId } from '../../shared/crypto/federated-id.ts';
import { openIdentityAssertion } from '../../shared/crypto/foreign-token.ts';
import type { JsonObject } from '../../shared/crypto/json-object.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Mode } from '../../shared/model/mode.ts';
import { isPlainText } from '../../shared/model/plain-text.ts';
import { secondMs, toMillis, type UnixMillis } from '../../shared/model/time.ts';
import { ForeignIssuer, onlyFitting } from '../../shared/verification/foreign-issuers.ts';
import { isMapped, mapClaims } from '../../shared/verification/map-claims.ts';
import { historyOf } from '../history/history.ts';
import { accountFederations } from '../issuers/federation-store.ts';
import type { KeyDeps } from '../issuers/follow-keys.ts';
import { type ForeignSubject, isSubjectActive } from '../passports/subject-standing-store.ts';
import { judgeSignature } from './judge-signature.ts';
import { federationLimits } from './limits.ts';

/** An identity assertion as a client presents it to the authorization server. */
export interface PresentedAssertion {
  readonly assertion: string;
  /** The client that has authenticated, and its account and mode. */
  readonly clientId: string;
  readonly accountId: AccountId;
  readonly mode: Mode;
  /** The authorization server, and the one resource that it gives tokens for. */
  readonly audience: string;
  readonly resource: string;
}

export interface VerifiedAssertion {
  readonly kind: 'verified';
  readonly subject: ForeignSubject;
  /** Once for each issuer. */
  readonly jti: string;
  readonly expiresAtMs: UnixMillis;
  /** What the issuer grants, with blanks between; null: it does not say. */
  readonly scope: string | null;
}

/** `detail` names the claim, and quotes nothing of it. */
export interface RefusedAssertion {
  readonly kind: 'refused';
  readonly detail: string;
}

/**
 * Verifies an Identity Assertion JWT Authorization Grant of an issuer of others that the account has
 * registered (draft-ietf-oauth-identity-assertion-authz-grant; contract §13). The issuer opts in: the
 * authorization server is one of its audiences. Whether `jti` is new is for the caller to find out, last.
 * Throws `service_unavailable` for one that cannot be judged yet.
 */
export async function verifyAssertion(
  deps: KeyDeps,
  presented: PresentedAssertion,
): Promise<VerifiedAssertion | RefusedAssertion> {
  // It may have forgotten which assertions were used, and who was switched off.
  if (historyOf(deps.sql).isRegressed)
    throw new ApiError('service_unavailable', { message: 'The service waits for agent-trust recover.' });
  const open = openIdentityAssertion(presented.assertion);
  if (typeof open === 'string') return refuse(`it must be a JWT of type oauth-id-jag+jwt, and ${open}`);
  const { payload } = open;
  const fault = faultOf(payload, presented);
  if (fault !== null) return refuse(fault);
  const issuer = await issuerOf(deps, payload, presented);
  if (issuer === null) return refuse('iss must be one active issuer with this server among its audiences');
  const judged = await judgeSignature(deps, issuer, open);
  if (judged === 'unknown_key') return refuse('its issuer has no single key of that kid and algorithm');
  if (judged === 'forged') return refuse('its signature does not verify');
  const nowMs = deps.clock.now();
  const mapped = mapClaims(payload, issuer.federation);
  if (!isMapped(mapped)) return refuse(`${mapped.claim} ${mapped.detail}`);
  const expiresAtMs = toMillis(mapped.expiresAtS);
  const late = faultOfTimes({ fromMs: toMillis(mapped.notBeforeS), expiresAtMs, nowMs });
  if (late !== null) return refuse(late);
  const { issuerId } = issuer;
  const passportId = federatedPassportId(issuerId, mapped.subject);
  const subject = { issuerId, passportId, owner: mapped.owner, user: mapped.user };
  if (!(await isSubjectActive(deps.sql, subject))) return refuse('its subject is suspended or revoked');
  const { jti, scope = null } = payload as { readonly jti: string; readonly scope?: string };
  return { kind: 'verified', subject, jti, expiresAtMs, scope };
}

const refuse = (detail: string): RefusedAssertion => ({ kind: 'refused', detail });

/** What is wrong with the claims that say for whom the assertion is. */
function faultOf(payload: JsonObject, { audience, clientId, resource }: PresentedAssertion): string | null {
  const { aud, client_id, jti, iat, scope, resource: resources } = payload;
  const audiences = Array.isArray(aud) ? aud : [aud];
  if (audiences.length !== 1 || audiences[0] !== audience) return 'aud must be this server, and no other';
  if (client_id !== clientId) return 'client_id must be the client that presents it';
  if (typeof jti !== 'string' || jti === '' || jti.length > federationLimits.eventIdCharsMax)
    return 'jti is missing, or too long';
  if (!isPlainText(jti) || !jti.isWellFormed()) return 'jti has characters that are not text';
  if (typeof iat !== 'number') return 'iat is missing';
  if (scope !== undefined && typeof scope !== 'string') return 'scope must be a text';
  if (resources !== undefined && ![resources].flat().includes(resource))
    return 'resource must be the tools endpoint';
  const unserved = unservedClaims.find((name) => payload[name] !== undefined);
  return unserved === undefined ? null : `${unserved} is not served`;
}

/**
 * What narrows a grant, and would not be heeded here: a key to be proven, details of what is granted, a
 * tenant that tells apart subjects of one name.
 */
const unservedClaims = ['cnf', 'authorization_details', 'tenant', 'aud_tenant'] as const;

async function issuerOf(
  { sql }: KeyDeps,
  payload: JsonObject,
  { accountId, mode }: PresentedAssertion,
): Promise<ForeignIssuer | null> {
  const stored = await accountFederations(sql, accountId);
  // A JWT-SVID is of a workload, and names no issuer.
  const named = stored.filter(
    ({ status, federation }) => status === 'active' && federation.type !== 'jwt-svid',
  );
  return onlyFitting(
    named.map((each) => new ForeignIssuer(each)),
    payload,
    mode,
  );
}

function faultOfTimes(at: {
  readonly fromMs: UnixMillis;
  readonly expiresAtMs: UnixMillis;
  readonly nowMs: UnixMillis;
}): string | null {
  const { fromMs, expiresAtMs, nowMs } = at;
  if (nowMs >= expiresAtMs) return 'it has expired';
  if (nowMs + limits.notBeforeLeewayMs < fromMs) return 'it is not valid yet';
  const lifetimeMsMax = federationLimits.assertionLifetimeMsMax;
  if (expiresAtMs - fromMs > lifetimeMsMax)
    return `it must expire within ${lifetimeMsMax / secondMs} seconds of iat`;
  return null;
}
