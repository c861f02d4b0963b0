import type { Static } from 'typebox';
import { idDigest } from '../../shared/crypto/id-digest.ts';
import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import type { Account } from '../../shared/model/account.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { type AccountUpdate, parseAccountUpdate, renderAccount } from '../../shared/wire/api/account.ts';
import { globalFeed } from '../../shared/wire/sync/sync.ts';
import { administer } from '../audit/administer.ts';
import { indexAccount } from '../discovery/index-account.ts';
import type { Caller } from '../http/caller.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { beginAllAnew } from '../webhooks/webhook-store.ts';
import { lockAccount, updateAccountState } from './account-store.ts';

/**
 * Changes name, plan, limits and status. The status binds every sidecar, also those of other accounts: a
 * suspended account's passports are blocked wherever they are shown (contract §2), and its gates are not
 * discovered. The operator cannot be suspended, because only the operator could lift that.
 */
export async function updateAccount(
  deps: SigningDeps,
  caller: Caller,
  { accountId, body }: { readonly accountId: AccountId; readonly body: Static<typeof AccountUpdate> },
): Promise<Account> {
  const account = await administer(deps, caller, async (tx, change) => {
    const current = await lockAccount(tx, accountId);
    if (current === null) throw new ApiError('account_not_found');
    const next = parseAccountUpdate(body, current);
    if (current.isOperator && next.status === 'suspended') {
      throw invalidRequest('status', "The operator's own account cannot be suspended.");
    }
    await updateAccountState(tx, accountId, next);
    if (next.status !== current.status) {
      const standing = { account: idDigest(accountId), standing: next.status };
      // Nothing was sent during the suspension, so no endpoint has failed.
      if (next.status === 'active') await beginAllAnew(tx, accountId);
      await change(globalFeed, { kind: 'account.standing', body: standing });
    }
    const updated: Account = { ...current, ...next };
    const before = renderAccount(current);
    return {
      result: updated,
      audited: { operation: 'updateAccount', target: accountId, before, after: renderAccount(updated) },
    };
  });
  // Also for an unchanged status: an earlier call may have crashed before this.
  if (body.status !== undefined) await indexAccount(deps.sql, accountId);
  return account;
}
