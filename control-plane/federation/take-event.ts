import { federatedPassportId } from '../../shared/crypto/federated-id.ts';
import { openSecurityEvent } from '../../shared/crypto/foreign-token.ts';
import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import { areKeysStale, type FederatedIssuer } from '../../shared/model/federation.ts';
import type { IssuerId, RequestId } from '../../shared/model/ids.ts';
import { ForeignIssuer } from '../../shared/verification/foreign-issuers.ts';
import { administer } from '../audit/administer.ts';
import type { Transaction } from '../base/database.ts';
import { findFederation } from '../issuers/federation-store.ts';
import type { KeyDeps } from '../issuers/follow-keys.ts';
import { lockIssuer } from '../issuers/issuer-store.ts';
import { lockPassportToEnd, setPassportStatus } from '../passports/passport-store.ts';
import { publishStanding } from '../passports/publish-standing.ts';
import { moveOwnerIn } from '../passports/suspend-owner.ts';
import type { WriteChange } from '../sync/change-transaction.ts';
import { suspendedSince, takeEventId } from './event-store.ts';
import { readEvent, type SecurityEvent, type Target } from './read-event.ts';
import { lockSubject } from './revoke-subject.ts';
import { readKeysSoon } from './verify-of-others.ts';

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
  if (stored.status === 'suspended') throw invalidRequest('body', 'This issuer is suspended.');
  const event = verifyEvent(deps, new ForeignIssuer(stored), token);
  const { accountId, mode } = stored;
  const actor = { type: 'issuer', id: issuerId, clientId: null };
  await administer(deps, { accountId, mode, actor, requestId }, async (tx, change) => {
    const suspended = event.targets.filter(({ effect }) => effect === 'suspend').map(nameIn(issuerId));
    const isNew = await takeEventId(tx, { issuerId, ...event, suspended }, deps.clock.now());
    if (!isNew) return { result: undefined, audited: null };
    const done: string[] = [];
    let reactivated = 0;
    for (const target of await targetsInForce(tx, stored, event)) {
      const move = target.kind === 'subject' ? moveSubject : moveOwnerOf;
      if (await move(tx, change, deps, { target, issuerId, accountId, mode }))
        done.push(`${target.effect} ${target.kind} ${target.name}`);
      if (target.effect === 'reactivate') reactivated += 1;
    }
    return {
      result: undefined,
      audited: {
        operation: 'receiveSecurityEvent',
        target: issuerId,
        before: null,
        after: { jti: event.jti, events: event.types, effects: done, reactivated },
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

function verifyEvent(deps: KeyDeps, issuer: ForeignIssuer, token: string): SecurityEvent {
  const open = openSecurityEvent(token);
  if (open === null)
    throw invalidRequest('body', 'The body must be a security event token (RFC 8417), signed by the issuer.');
  if (areKeysStale(issuer, deps.clock.now()))
    throw new ApiError('service_unavailable', {
      message: 'The keys of the issuer could not be read for too long.',
    });
  const key = issuer.find(open.kid, open.algorithm);
  if (key === null) {
    readKeysSoon(deps, issuer.issuerId);
    throw invalidRequest(
      'body',
      'The token is signed by a key that is not known. Send it again in a minute.',
    );
  }
  if (!key.verify(Buffer.from(open.signedText, 'latin1'), open.signature))
    throw invalidRequest('body', 'The signature of the token does not verify.');
  const event = readEvent(open.payload, issuer.federation, deps.clock.now());
  if (typeof event === 'string') throw invalidRequest('body', `The token is refused: ${event}.`);
  return event;
}

interface Move {
  readonly target: Target;
  readonly issuerId: IssuerId;
  readonly accountId: ForeignIssuer['accountId'];
  readonly mode: ForeignIssuer['mode'];
}

/** Whether that changed something: a revoked passport stays revoked. */
async function moveSubject(
  tx: Transaction,
  change: WriteChange,
  deps: KeyDeps,
  { target, ...about }: Move,
): Promise<boolean> {
  const passportId = await lockSubject(tx, deps, about, { ...about, subject: target.name });
  const passport = await lockPassportToEnd(tx, about, { passportId, nowMs: deps.clock.now() });
  const [from, to] =
    target.effect === 'suspend' ? (['active', 'suspended'] as const) : (['suspended', 'active'] as const);
  if (passport?.status !== from) return false;
  await setPassportStatus(tx, passportId, to);
  await publishStanding(tx, change, passport, to);
  return true;
}

async function moveOwnerOf(
  tx: Transaction,
  change: WriteChange,
  _deps: KeyDeps,
  { target, ...account }: Move,
): Promise<boolean> {
  const to = target.effect === 'suspend' ? 'suspended' : 'active';
  const { audited } = await moveOwnerIn(tx, change, account, { owner: target.name, to });
  return audited !== null;
}
