import { type OpenForeignToken, openForeignToken } from '../../shared/crypto/foreign-token.ts';
import { isJsonObject, type JsonObject } from '../../shared/crypto/json-object.ts';
import { openPassportToken } from '../../shared/crypto/passport-token.ts';
import { checkPassport } from '../../shared/decision/check-passport.ts';
import type { CompiledGate } from '../../shared/decision/compile-gate.ts';
import type { VerifiedPassport } from '../../shared/decision/facts.ts';
import { must } from '../../shared/errors/assert.ts';
import type { DecisionReason } from '../../shared/model/decision.ts';
import type { JsonPointer } from '../../shared/model/federation.ts';
import { renderTime, toMillis, type UnixMillis, type UnixSeconds } from '../../shared/model/time.ts';
import { type ForeignIssuer, onlyFitting } from '../../shared/verification/foreign-issuers.ts';
import { valueAt } from '../../shared/verification/map-claims.ts';
import { admitOfOthers, openOfOthers } from '../../shared/verification/verify-foreign-token.ts';
import type { TokenFault } from '../../shared/verification/verify-token.ts';
import type { TokenExplanation } from '../../shared/wire/api/federation-operations.ts';
import { renderSuspensions } from '../../shared/wire/api/passport.ts';
import type { ForeignSubject, SubjectStanding } from '../passports/subject-standing-store.ts';
import { explainGate, unharmed } from './explain-gate.ts';

type Step = TokenExplanation['steps'][number];

/**
 * What a token would become at a gate, step by step and claim by claim, up to the first fault. A decision's
 * own functions judge it; what is written here only says in words what they found. `known`: all active
 * issuers of others of the account, or those that the gate knows. `gate`: the passport is then tried there.
 */
export async function explainToken(
  token: string,
  issuer: ForeignIssuer,
  {
    known,
    gate,
    standingOf,
    isOwnKey,
  }: {
    readonly known: readonly ForeignIssuer[];
    readonly gate: CompiledGate | null;
    readonly standingOf: (subject: ForeignSubject) => Promise<SubjectStanding | null>;
    /** Whether passports of this service that name this key are believed. */
    readonly isOwnKey: (kid: string) => boolean;
  },
  nowMs: UnixMillis,
): Promise<TokenExplanation> {
  const { mode } = issuer;
  const opened = openForeignToken(token);
  const open = typeof opened === 'string' ? null : opened;
  const steps: Step[] = [];
  const note = (claim: string, becomes: string, is_good = true): void => {
    const value = open === null ? null : shown(saidAt(open, claim));
    const moved = open === null ? '' : whereElse(open.payload, claim);
    steps.push({ claim, value, is_good, becomes: `${becomes}${moved}` });
  };
  const refuse = (reason: DecisionReason, { claim, detail }: TokenFault): TokenExplanation => {
    note(claim, `${detail.charAt(0).toUpperCase()}${detail.slice(1)}.`, false);
    return { reason, steps, passport: null };
  };
  const among = { name: '', size: 1, pick: (payload: JsonObject) => onlyFitting(known, payload, mode) };
  // As in a decision, a token in the form of our own passports is none of others.
  const ours = openPassportToken(token);
  if (ours !== null) {
    const claim = 'header.kid';
    return isOwnKey(ours.kid)
      ? refuse('issuer_untrusted', { claim, detail: 'this service has issued the passport' })
      : refuse('passport_unknown_key', {
          claim,
          detail: 'it is of type passport+jwt, and by no key of ours',
        });
  }
  const shape = openOfOthers(token, among, mode);
  if (shape.kind === 'refused') return refuse(shape.reason, shape.fault ?? whyUntrusted(open, issuer, known));
  if (shape.issuer.issuerId !== issuer.issuerId)
    return refuse('issuer_untrusted', whyUntrusted(open, issuer, known));
  note('header.alg', 'The algorithm is accepted.');
  note('iss, aud', 'This issuer, and no other, fits.');
  const { payload, signedText, signature } = shape.open;
  const admitted = admitOfOthers(shape, shape.key.verify(Buffer.from(signedText, 'latin1'), signature));
  if (admitted.kind === 'refused')
    return refuse(admitted.reason, must(admitted.fault, 'a token that was opened has a fault that is known'));
  const { passport } = admitted;
  note('signature', 'The signature verifies.');
  const late = checkPassport(passport, unharmed, { mode }, nowMs);
  if (late !== null) return refuse(late, whyLate(late, passport, payload));
  for (const [claim, becomes] of claimsInWords(payload, passport, issuer)) note(claim, becomes);
  const shownPassport = passportOf(passport, await standingOf(passport));
  const status = shownPassport.status === 'expired' ? 'revoked' : shownPassport.status;
  const against = checkPassport(passport, { ...unharmed, status }, { mode }, nowMs);
  if (against !== null)
    return {
      ...refuse(against, { claim: 'status', detail: `the passport is ${status}` }),
      passport: shownPassport,
    };
  const atGate = gate === null ? { reason: null, steps: [] } : explainGate(gate, passport);
  return { reason: atGate.reason, steps: [...steps, ...atGate.steps], passport: shownPassport };
}

function whyUntrusted(
  open: OpenForeignToken | null,
  issuer: ForeignIssuer,
  known: readonly ForeignIssuer[],
): TokenFault {
  const { issuer: name, audiences } = issuer.federation;
  const claim = 'iss, aud';
  if (open === null || onlyFitting([issuer], open.payload, issuer.mode) === null)
    return { claim, detail: `this issuer takes ${name} and the audiences ${audiences.join(', ')}` };
  if (!known.some(({ issuerId }) => issuerId === issuer.issuerId))
    return { claim: 'issuer', detail: 'this issuer is suspended' };
  return { claim, detail: 'two issuers fit this token: neither is taken' };
}

function whyLate(late: DecisionReason, passport: VerifiedPassport, { iat, nbf }: JsonObject): TokenFault {
  if (late === 'issuer_keys_stale')
    return { claim: 'keys', detail: 'those of the issuer could not be read for longer than max_key_age_s' };
  if (late === 'passport_expired') return { claim: '/exp', detail: 'the token has ended' };
  const isBegin = (time: unknown) => typeof time === 'number' && Math.floor(time) === passport.notBeforeS;
  const claim = isBegin(nbf) ? '/nbf' : isBegin(iat) ? '/iat' : '/exp';
  return { claim, detail: `the token is not valid before ${timeOf(passport.notBeforeS)}` };
}

const timeOf = (seconds: UnixSeconds): string => renderTime(toMillis(seconds));

function claimsInWords(
  payload: JsonObject,
  passport: VerifiedPassport,
  { federation: { claims } }: ForeignIssuer,
): readonly (readonly [claim: string, becomes: string])[] {
  const { agentId, permissions, trustTier, owner, user } = passport;
  const granted = [...permissions].join(', ');
  const texts = claims.permissions === null ? null : valueAt(payload, claims.permissions);
  const split = typeof texts === 'string' && texts.includes(' ') ? ' The text is split at its blanks.' : '';
  const said = [
    ['/exp', `The passport ends at ${timeOf(endOf(passport))}.`],
    [claims.agentId, `The subject is ${agentId}.`],
    [
      claims.permissions,
      `${granted === '' ? 'No permission.' : `Permissions, with those of all: ${granted}.`}${split}`,
    ],
    [claims.trustTier, `The trust tier is ${trustTier}.`],
    [claims.owner, owner === null ? 'No owner.' : `The owner is ${owner}.`],
    [claims.user, user === null ? 'It acts for nobody.' : `It acts for ${user}.`],
  ] as const;
  return said.flatMap(([pointer, becomes]) => (pointer === null ? [] : [[pointer, becomes] as const]));
}

const endOf = ({ expiresAtS }: VerifiedPassport): UnixSeconds =>
  must(expiresAtS, 'a token of another issuer ends');

/**
 * Where the provider says that a claim is which it left out of the token: at another address (OpenID Connect
 * Core §5.6.2), or nowhere. Entra ID does so with the groups of whoever has too many.
 */
function whereElse(payload: JsonObject, claim: string): string {
  const [, name = ''] = claim.split('/');
  const { _claim_names: names, _claim_sources: sources, hasgroups: hasGroups } = payload;
  if (name === '' || payload[name] !== undefined) return '';
  if (isJsonObject(names) && Object.hasOwn(names, name)) {
    const source = isJsonObject(sources) ? sources[String(names[name])] : null;
    const address = isJsonObject(source) ? shown(source['endpoint']) : null;
    return ` The provider left ${name} out (_claim_names): it is at ${address ?? 'another place'}, where nobody asks.`;
  }
  return name === 'groups' && hasGroups !== undefined
    ? ' The provider left groups out, because they are too many (hasgroups).'
    : '';
}

const passportOf = (
  passport: VerifiedPassport,
  standing: SubjectStanding | null,
): NonNullable<TokenExplanation['passport']> => ({
  passport_id: passport.passportId,
  status: standing?.status ?? 'active',
  suspended_by: renderSuspensions(standing?.suspendedBy ?? []),
  agent_id: passport.agentId,
  owner: passport.owner,
  user: passport.user,
  actors: passport.actors.map((each) => ({ ...each })),
  permissions: [...passport.permissions],
  trust_tier: passport.trustTier,
  expires_at: timeOf(endOf(passport)),
});

/** What the token says at the place that a step or a fault is about. */
function saidAt({ algorithm, kid, payload }: OpenForeignToken, claim: string): unknown {
  if (claim.startsWith('/')) return valueAt(payload, claim as JsonPointer);
  if (claim === 'header.alg') return algorithm;
  if (claim === 'header.kid' || claim === 'signature') return kid;
  if (claim !== 'iss, aud') return null;
  const { iss, sub, aud } = payload;
  return iss === undefined ? { sub, aud } : { iss, aud };
}

const shownCharsMax = 500;

/** As JSON, cut. Absent, or no JSON: null. */
const shown = (value: unknown): string | null => {
  if (value === undefined || value === null || typeof value === 'symbol') return null;
  return (typeof value === 'string' ? value : JSON.stringify(value)).slice(0, shownCharsMax).toWellFormed();
};
