/**
 * Room `control-plane/accounts`: accounts, with the first one of an installation
 * (`ensure-first-account.ts`). SQL in `account-store.ts`.
 */

import type { Account } from '../../shared/model/account.ts';
import type { NewAccount } from '../../shared/wire/api/account.ts';
import { addApiKey, type IssuedApiKey, makeIssuedKey } from '../api-keys/create-api-key.ts';
import type { Transaction } from '../base/database.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { createFeed, type WriteChange } from '../sync/change-transaction.ts';
import { insertAccount } from './account-store.ts';

/**
 * Creates an account with its change feed and its first key, which is live and has `admin:*`: the account
 * manages itself from there.
 */
export async function createAccount(
  tx: Transaction,
  change: WriteChange,
  deps: Pick<SigningDeps, 'random' | 'clock'>,
  wanted: NewAccount,
): Promise<{ readonly account: Account; readonly firstKey: IssuedApiKey }> {
  const nowMs = deps.clock.now();
  const account: Account = {
    ...wanted,
    accountId: deps.random.newId('acct', nowMs),
    status: 'active',
    isOperator: false,
    createdAtMs: nowMs,
  };
  const firstKey = makeIssuedKey(deps, {
    accountId: account.accountId,
    mode: 'live',
    name: 'First key',
    scopes: ['admin:*'],
    expiresAtMs: null,
    endsWithKeyId: null,
  });
  await insertAccount(tx, account);
  await createFeed(tx, account.accountId);
  await addApiKey(tx, change, firstKey.apiKey);
  return { account, firstKey };
}
