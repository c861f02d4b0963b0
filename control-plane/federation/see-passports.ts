/**
 * Room `control-plane/federation`: tokens of other issuers (contract §4). `verify-of-others.ts` verifies
 * one, this file makes its passport known, `shown-routes.ts` takes tokens that sidecars have met,
 * `revoke-subject.ts` ends a subject that nobody has seen yet, `take-event.ts` receives Shared Signals,
 * `verify-assertion.ts` verifies what a client trades for an access token, `explain-token.ts` says what a
 * token would become.
 */

import { federatedPassportId } from '../../shared/crypto/federated-id.ts';
import type { VerifiedPassport } from '../../shared/decision/facts.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { renderConstraints } from '../../shared/wire/api/constraints.ts';
import type { ReadSubject } from '../../shared/wire/sync/attestation-batch.ts';
import { findFederations } from '../issuers/federation-store.ts';
import {
  areKnown,
  holdDefaultWallets,
  putSubjectPassport,
  type SubjectPassport,
} from '../passports/federated-passport-store.ts';
import { lockOwners } from '../passports/suspension-store.ts';
import { standWithOwners } from '../passports/unnamed-end-store.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { distinct } from '../storage/distinct.ts';
import { changeTransaction } from '../sync/change-transaction.ts';
import type { VerifiedOfOthers } from './verify-of-others.ts';

type SeeingDeps = Pick<SigningDeps, 'sql' | 'clock' | 'random' | 'signingKeys' | 'bus'>;

/**
 * Makes the passports of these verified tokens known, with the terms of the tokens (contract §4). The tokens
 * are not stored. Resolves once that is committed.
 */
export const seePassports = (deps: SeeingDeps, verified: readonly VerifiedOfOthers[]): Promise<void> =>
  put(deps, verified.map(subjectPassportOf));

const subjectPassportOf = ({ passport, issuer }: VerifiedOfOthers): SubjectPassport => ({
  ...identityOf(passport),
  subject: passport.agentId,
  terms: {
    permissions: [...passport.permissions],
    trustTier: passport.trustTier,
    owner: passport.owner,
    constraints: renderConstraints(issuer.federation.constraints),
  },
});

const identityOf = ({ passportId, accountId, mode, issuerId }: VerifiedPassport) => ({
  passportId,
  accountId,
  mode,
  issuerId,
});

/**
 * Makes passports known that a sidecar names in its records, where it has not shown their tokens: it lost
 * them in a crash. It may do so for the issuers of its own account alone, so that a lying sidecar makes up
 * passports of nobody else; it gives them no terms.
 */
export async function nameSubjects(
  deps: SeeingDeps,
  accountId: AccountId,
  named: readonly ReadSubject[],
): Promise<void> {
  if (named.length === 0) return;
  const issuers = await findFederations(deps.sql, distinct(named.map(({ issuerId }) => issuerId)));
  const passports = new Map<string, SubjectPassport>();
  for (const { issuerId, subject } of named) {
    const issuer = issuers.get(issuerId);
    if (issuer?.accountId !== accountId) continue;
    const passportId = federatedPassportId(issuerId, subject);
    const { mode } = issuer;
    passports.set(passportId, { passportId, accountId, mode, issuerId, subject, terms: null });
  }
  await put(deps, [...passports.values()]);
}

/** Mostly there is nothing to write. In the order of ids, so that two writers do not wait for each other. */
async function put(deps: SeeingDeps, passports: readonly SubjectPassport[]): Promise<void> {
  if (passports.length === 0) return;
  const byId = new Map(passports.map((passport) => [passport.passportId, passport]));
  const sorted = [...byId.values()].sort((one, other) => (one.passportId < other.passportId ? -1 : 1));
  const known = await areKnown(deps.sql, sorted);
  const fresh = sorted.filter((_, place) => known[place] === false);
  if (fresh.length === 0) return;
  const signingKeyId = deps.signingKeys.current('passport').kid;
  const owned = fresh.map(({ terms, ...passport }) => ({ ...passport, owner: terms?.owner ?? null }));
  await changeTransaction(deps, async (tx, change) => {
    await lockOwners(tx, owned, 'shared');
    const wallets = await holdDefaultWallets(tx, distinct(fresh.map(({ issuerId }) => issuerId)));
    for (const passport of fresh)
      await putSubjectPassport(tx, passport, {
        signingKeyId,
        nowMs: deps.clock.now(),
        random: deps.random,
        wallets,
      });
    await standWithOwners(tx, change, owned, deps.clock.now());
  });
}
