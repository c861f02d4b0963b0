import { federatedPassportId } from '../../shared/crypto/federated-id.ts';
import { openSecurityEvent } from '../../shared/crypto/foreign-token.ts';
import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import type { FederatedIssuer } from '../../shared/model/federation.ts';
import type { IssuerId, RequestId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { ForeignIssuer } from '../../shared/verification/foreign-issuers.ts';
import { administer } from '../audit/administer.ts';
import type { Transaction } from '../base/database.ts';
import { findFederation } from '../issuers/federation-store.ts';
import type { KeyDeps } from '../issuers/follow-keys.ts';
import { lockIssuer } from '../issuers/issuer-store.ts';
import { knownPassports } from '../passports/federated-passport-store.ts';
import { lockOwners, moveSuspensions, type SuspensionMove } from '../passports/suspension-store.ts';
import { suspendedSince, takeEventId } from './event-store.ts';
import { judgeSignature } from './judge-signature.ts';
import { readEvent, type SecurityEvent, type Target } from './read-event.ts';
import { lockSubject } from './revoke-subject.ts';

/**
 * Takes a security event token (RFC 8417) that an issuer of others has pushed (RFC 8935), once for each
 * `jti`. Its signature is all that authenticates it. What it does is committed and published when this
 * resolves, so it binds sidecars as fast as a suspension through the API. Throws ApiError.
 */
export async function takeEvent(
  deps: KeyDeps,
  {
    issuerId,
    token,
    requestId,
  }: { readonly issuerId: IssuerId; readonly token: string; readonly requestId: RequestId },
): Promise<void> {
  const stored = await findFederation(deps.sql, issuerId);
  if (stored === null) throw new ApiError('issuer_not_found');
  if (stored.status === 'suspended') throw invalidRequest('issuer', 'This issuer is suspended.');
  const event = await verifyEvent(deps, new ForeignIssuer(stored), token);
  const { accountId, mode } = stored;
  const actor = { type: 'issuer', id: issuerId, clientId: null };
  await administer(deps, { accountId, mode, actor, requestId }, async (tx, change) => {
    const suspended = event.targets.filter(({ effect }) => effect === 'suspend').map(nameIn(issuerId));
    const isNew = await takeEventId(tx, { issuerId, ...event, suspended }, deps.clock.now());
    if (!isNew) return { result: undefined, audited: null };
    const owners = event.targets.filter(({ kind }) => kind === 'owner');
    const owned = owners.map(({ name: owner }) => ({ accountId, mode, owner }));
    await lockOwners(tx, owned, 'exclusive');
    const targets = await targetsInForce(tx, stored, event);
    const unseen = await makeSubjects(tx, deps, { targets, issuerId, accountId, mode });
    const moves = targets.map((target) => moveOf(target, issuerId));
    const moved = await moveSuspensions(tx, change, stored, { moves, nowMs: deps.clock.now() });
    const named = targets.map((target, place) => ({
      text: `${target.effect} ${target.kind} ${target.name}`,
      isNew: moved[place]?.isNew === true,
      isHit: moved[place]?.hit.some((id) => !unseen.has(id)) === true,
    }));
    const effects = named.flatMap(({ isHit, text }) => (isHit ? text : []));
    // It binds, and has stopped nobody yet; or it is over, and others still suspend.
    const noted = named.flatMap(({ isNew, isHit, text }) => (isNew && !isHit ? text : []));
    const reactivated = targets.filter(({ effect }) => effect === 'reactivate').length;
    return {
      result: undefined,
      audited: {
        operation: 'receiveSecurityEvent',
        target: issuerId,
        before: null,
        after: {
          ...{ jti: event.jti, events: event.types, effects, noted, reactivated },
          ...(event.ignored.length > 0 && { without_effect: event.ignored }),
        },
      },
    };
  });
}

/** What the store knows a target by. A subject is any text. */
const nameIn =
  (issuerId: IssuerId) =>
  ({ kind, name }: Target): string =>
    kind === 'subject' ? federatedPassportId(issuerId, name) : `owner:${name}`;

/**
 * In the order of locks: subjects by the ids of their passports, then owners. Of two effects on one the
 * suspension comes last and stays. Events are pushed again until they are taken, so one may arrive late: it
 * does not reactivate whom the issuer has suspended since.
 */
async function targetsInForce(
  tx: Transaction,
  issuer: FederatedIssuer,
  event: SecurityEvent,
): Promise<readonly Target[]> {
  const { issuerId } = issuer;
  const nameOf = nameIn(issuerId);
  const reactivated = event.targets.filter(({ effect }) => effect === 'reactivate');
  // Events of an issuer that are taken at once see each other from here on.
  if (reactivated.length > 0) await lockIssuer(tx, issuer, issuerId);
  const since = await suspendedSince(tx, { issuerId, ...event }, reactivated.map(nameOf));
  const placeOf = (target: Target) =>
    `${target.kind === 'subject' ? 0 : 1} ${nameOf(target)}\0${target.effect === 'reactivate' ? 0 : 1}`;
  return event.targets
    .filter((target) => target.effect === 'suspend' || !since.has(nameOf(target)))
    .toSorted((one, other) => (placeOf(one) < placeOf(other) ? -1 : 1));
}

/** The `param` of a refusal is the claim at fault, from which the code of RFC 8935 follows. */
async function verifyEvent(deps: KeyDeps, issuer: ForeignIssuer, token: string): Promise<SecurityEvent> {
  const open = openSecurityEvent(token);
  if (typeof open === 'string')
    throw invalidRequest('body', `The body must be a security event token (RFC 8417): ${open}.`);
  const judged = await judgeSignature(deps, issuer, open);
  if (judged === 'unknown_key')
    throw invalidRequest('kid', 'The issuer has no single key of that kid and algorithm.');
  if (judged === 'forged') throw invalidRequest('signature', 'The signature of the token does not verify.');
  const event = readEvent(open.payload, issuer.federation, deps.clock.now());
  if ('claim' in event) throw invalidRequest(event.claim, `The token is refused: ${event.detail}.`);
  return event;
}

/** Makes the passports of those whom it suspends, in the order of their ids. Resolves to the new ones. */
async function makeSubjects(
  tx: Transaction,
  deps: KeyDeps,
  { targets, ...about }: Owner & { readonly targets: readonly Target[]; readonly issuerId: IssuerId },
): Promise<ReadonlySet<string>> {
  const subjects = targets.filter(({ kind, effect }) => kind === 'subject' && effect === 'suspend');
  const nameOf = nameIn(about.issuerId);
  const seen = await knownPassports(tx, subjects.map(nameOf));
  for (const { name: subject } of subjects) await lockSubject(tx, deps, about, { ...about, subject });
  return new Set(subjects.map(nameOf).filter((id) => !seen.has(id)));
}

/** What a target comes to, as what this issuer says of it. */
const moveOf = ({ kind, name, effect, type }: Target, issuerId: IssuerId): SuspensionMove => ({
  of: kind === 'owner' ? { owner: name } : { passportId: federatedPassportId(issuerId, name) },
  to: effect === 'suspend' ? 'suspended' : 'active',
  cause: issuerId,
  event: type,
});
