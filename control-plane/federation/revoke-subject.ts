import { federatedPassportId } from '../../shared/crypto/federated-id.ts';
import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import type { IssuerId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { canonicalName } from '../../shared/wire/api/email.ts';
import { administer } from '../audit/administer.ts';
import type { Transaction } from '../base/database.ts';
import type { Caller } from '../http/caller.ts';
import { lockIssuer } from '../issuers/issuer-store.ts';
import { holdDefaultWallets, putSubjectPassport } from '../passports/federated-passport-store.ts';
import { type Revocation, revokeIn } from '../passports/revoke-passport.ts';
import type { SigningDeps } from '../signing/deps.ts';

/**
 * Revokes the passport of a subject of another issuer, seen or not: every token of it is blocked, future ones
 * too, until the passport is reactivated (contract §4).
 */
export const revokeSubject = (
  deps: SigningDeps,
  caller: Caller,
  asked: { readonly issuerId: IssuerId; readonly subject: string; readonly reason: string },
): Promise<Revocation> =>
  administer(deps, caller, async (tx, change) => {
    const passportId = await lockSubject(tx, deps, caller, asked);
    return revokeIn(tx, change, deps, {
      caller,
      passportId,
      reason: asked.reason,
      operation: 'revokeSubject',
    });
  });

/** Makes the passport of this subject if there is none. Throws for an issuer that is not one of others. */
export async function lockSubject(
  tx: Transaction,
  { signingKeys, clock, random }: Pick<SigningDeps, 'signingKeys' | 'clock' | 'random'>,
  owner: Owner,
  { issuerId, subject: named }: { readonly issuerId: IssuerId; readonly subject: string },
) {
  const issuer = await lockIssuer(tx, owner, issuerId);
  if (issuer === null) throw new ApiError('issuer_not_found');
  if (issuer.federation === null)
    throw invalidRequest('id', 'This issuer issues passports here: revoke them by their id.');
  const subject = canonicalName(named);
  const passportId = federatedPassportId(issuerId, subject);
  const { accountId, mode } = issuer;
  const wallets = await holdDefaultWallets(tx, [issuerId]);
  await putSubjectPassport(
    tx,
    { passportId, accountId, mode, issuerId, subject, terms: null },
    { signingKeyId: signingKeys.current('passport').kid, nowMs: clock.now(), random, wallets },
  );
  return passportId;
}
