import { federatedPassportId } from '../../shared/crypto/federated-id.ts';
import { openForeignToken } from '../../shared/crypto/foreign-token.ts';
import type { CompiledGate } from '../../shared/decision/compile-gate.ts';
import type { DecisionReason } from '../../shared/model/decision.ts';
import { areKeysStale, type JsonPointer } from '../../shared/model/federation.ts';
import { renderTime, toMillis, type UnixMillis } from '../../shared/model/time.ts';
import { type ForeignIssuer, onlyFitting } from '../../shared/verification/foreign-issuers.ts';
import { isMapped, type MappedClaims, mapClaims, valueAt } from '../../shared/verification/map-claims.ts';
import { admitOfOthers } from '../../shared/verification/verify-foreign-token.ts';
import type { TokenExplanation } from '../../shared/wire/federation-operations.ts';
import { explainGate } from './explain-gate.ts';

type Step = TokenExplanation['steps'][number];

/**
 * What a token would become at a gate, step by step and claim by claim, up to the first fault: the same
 * functions as in a decision. `known`: all active issuers of others of the account, or those that the gate
 * knows. `gate`: the passport is then tried there, too.
 */
export function explainToken(
  token: string,
  issuer: ForeignIssuer,
  { known, gate }: { readonly known: readonly ForeignIssuer[]; readonly gate: CompiledGate | null },
  nowMs: UnixMillis,
): TokenExplanation {
  const steps: Step[] = [];
  const good = (claim: string, value: unknown, becomes: string) =>
    steps.push({ claim, value: shown(value), is_good: true, becomes });
  const refuse = (
    claim: string,
    value: unknown,
    reason: DecisionReason,
    becomes: string,
  ): TokenExplanation => {
    steps.push({ claim, value: shown(value), is_good: false, becomes });
    return { reason, steps, passport: null };
  };
  const open = openForeignToken(token.trim());
  if (open === null)
    return refuse(
      'header',
      null,
      'passport_malformed',
      'No signed JWT that is accepted: three parts; an asymmetric algorithm; no crit, jwk, jku or x5u; of type JWT or at+jwt.',
    );
  const { payload, algorithm, kid } = open;
  good('header.alg', algorithm, 'The algorithm is accepted.');
  const name = issuer.federation.type === 'jwt-svid' ? 'sub' : 'iss';
  const fitting = onlyFitting([issuer], payload, issuer.mode);
  if (fitting === null)
    return refuse(
      `${name}, aud`,
      { [name]: payload[name], aud: payload['aud'] },
      'issuer_untrusted',
      `This issuer takes ${issuer.federation.issuer} and the audiences ${issuer.federation.audiences.join(', ')}.`,
    );
  if (!known.some(({ issuerId }) => issuerId === issuer.issuerId))
    return refuse('issuer', issuer.issuerId, 'issuer_untrusted', 'This issuer is suspended.');
  if (onlyFitting(known, payload, issuer.mode) === null)
    return refuse(
      `${name}, aud`,
      payload['aud'],
      'issuer_untrusted',
      'Two issuers fit this token: neither is taken.',
    );
  good(`${name}, aud`, { [name]: payload[name], aud: payload['aud'] }, 'This issuer, and no other, fits.');
  const key = issuer.find(kid, algorithm);
  if (key === null)
    return refuse(
      'header.kid',
      kid,
      'passport_unknown_key',
      `The issuer has no single key of that kid for ${algorithm}.`,
    );
  if (!key.verify(Buffer.from(open.signedText, 'latin1'), open.signature))
    return refuse('signature', null, 'passport_signature_invalid', 'The signature does not verify.');
  good('signature', kid, 'The signature verifies.');
  const mapped = mapClaims(payload, issuer.federation);
  if (!isMapped(mapped)) return refuse('claims', null, mapped.reason, `${mapped.detail}.`);
  steps.push(...claimSteps(payload, mapped, issuer));
  const late = areKeysStale(issuer, nowMs)
    ? ('issuer_keys_stale' as const)
    : nowMs >= toMillis(mapped.expiresAtS)
      ? ('passport_expired' as const)
      : null;
  if (late !== null)
    return refuse('exp', payload['exp'], late, 'The token, or the keys of its issuer, are too old.');
  const passport = passportOf(mapped, issuer);
  const admitted = admitOfOthers({ kind: 'foreign', open, key, issuer, among: '' }, true);
  if (gate === null || admitted.kind === 'refused') return { reason: null, steps, passport };
  const atGate = explainGate(gate, admitted.passport);
  return { reason: atGate.reason, steps: [...steps, ...atGate.steps], passport };
}

function claimSteps(payload: object, mapped: MappedClaims, { federation }: ForeignIssuer): Step[] {
  const { claims } = federation;
  const at = (pointer: JsonPointer | null, becomes: string): Step[] =>
    pointer === null
      ? []
      : [{ claim: pointer, value: shown(valueAt(payload, pointer)), is_good: true, becomes }];
  const granted = mapped.permissions.join(', ');
  return [
    ...at('/exp' as JsonPointer, `The passport ends at ${renderTime(toMillis(mapped.expiresAtS))}.`),
    ...at(claims.agentId, `The subject is ${mapped.subject}.`),
    ...at(
      claims.permissions,
      granted === '' ? 'No permission.' : `Permissions, with those of all: ${granted}.`,
    ),
    ...at(claims.trustTier, `The trust tier is ${mapped.trustTier}.`),
    ...at(claims.owner, mapped.owner === null ? 'No owner.' : `The owner is ${mapped.owner}.`),
  ];
}

const passportOf = (mapped: MappedClaims, { issuerId }: ForeignIssuer): TokenExplanation['passport'] => ({
  passport_id: federatedPassportId(issuerId, mapped.subject),
  agent_id: mapped.subject,
  owner: mapped.owner,
  permissions: [...mapped.permissions],
  trust_tier: mapped.trustTier,
  expires_at: renderTime(toMillis(mapped.expiresAtS)),
});

const shownCharsMax = 500;

/** As JSON, cut. Absent: null. */
const shown = (value: unknown): string | null => {
  if (value === undefined || value === null) return null;
  return (typeof value === 'string' ? value : JSON.stringify(value)).slice(0, shownCharsMax);
};
