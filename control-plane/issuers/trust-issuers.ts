import { invalidRequest } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { IssuerId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { Transaction } from '../base/database.ts';
import type { WriteChange } from '../sync/change-transaction.ts';
import { accountsNaming, countNamed, findFederations, holdNamed } from './federation-store.ts';
import { tellFederation } from './follow-keys.ts';
import { issuersLimits } from './limits.ts';

/** Issuers of others of other accounts that a gate is about to name, unchanged until the transaction ends. */
export interface NewlyTrusted {
  readonly owner: Owner;
  readonly issuerIds: readonly IssuerId[];
}

/**
 * Before the gate is locked: what is told of these issuers with the gate must be what they are then. Ids of
 * anything else are passed over, so that an answer says nothing of other accounts.
 */
export async function holdTrusted(
  tx: Transaction,
  owner: Owner,
  named: readonly IssuerId[],
): Promise<NewlyTrusted> {
  return { owner, issuerIds: named.length === 0 ? [] : await holdNamed(tx, owner, named) };
}

/**
 * Tells the sidecars of the gate's account about issuers that it begins to trust. The gate is written; it is
 * told after this. Throws `invalid_request` beyond the bounds.
 */
export async function tellTrusted(
  tx: Transaction,
  change: WriteChange,
  { owner, issuerIds }: NewlyTrusted,
): Promise<void> {
  if (issuerIds.length === 0) return;
  const { trustedOfOthersMax, trustingAccountsMax } = issuersLimits;
  const param = 'constraints.trusted_issuers';
  if ((await countNamed(tx, owner)) > trustedOfOthersMax)
    throw invalidRequest(
      param,
      `The gates of an account may trust at most ${trustedOfOthersMax} issuers of others of other accounts in each mode.`,
    );
  const issuers = await findFederations(tx, issuerIds);
  for (const issuerId of issuerIds) {
    const issuer = must(issuers.get(issuerId), 'an issuer that is held is there');
    if ((await accountsNaming(tx, issuer)).length > trustingAccountsMax)
      throw invalidRequest(
        param,
        `An issuer of others may be trusted by at most ${trustingAccountsMax} other accounts: register the provider in your own account.`,
      );
    await tellFederation(change, owner.accountId, issuer);
  }
}
