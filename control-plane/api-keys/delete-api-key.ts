import { ApiError } from '../../shared/errors/api-error.ts';
import type { ApiKey } from '../../shared/model/api-key.ts';
import type { ApiKeyId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { renderApiKey } from '../../shared/wire/api/api-key.ts';
import { administer } from '../audit/administer.ts';
import type { Transaction } from '../base/database.ts';
import type { Caller } from '../http/caller.ts';
import type { SigningDeps } from '../signing/deps.ts';
import type { WriteChange } from '../sync/change-transaction.ts';
import { lockApiKey, revokeApiKeys } from './api-key-store.ts';
import { refuseMoreThanHeld } from './create-api-key.ts';

/**
 * Deletes a key for good, with the keys that end with it: here at once, at the sidecars with the push. The
 * caller must hold all its scopes, or keys:manage alone could delete an administrator's key. Resolves to the
 * time of deletion.
 */
export async function deleteApiKey(deps: SigningDeps, caller: Caller, keyId: ApiKeyId): Promise<UnixMillis> {
  return administer(deps, caller, async (tx, change) => {
    const key = await lockApiKey(tx, caller, keyId);
    if (key === null) throw new ApiError('api_key_not_found');
    refuseMoreThanHeld(caller, key.scopes);
    const nowMs = deps.clock.now();
    await endApiKey(tx, change, key, nowMs);
    const before = renderApiKey(key);
    return { result: nowMs, audited: { operation: 'deleteApiKey', target: keyId, before, after: null } };
  });
}

/** Ends a locked key and the keys that end with it. */
export async function endApiKey(
  tx: Transaction,
  change: WriteChange,
  { keyId, accountId }: Pick<ApiKey, 'keyId' | 'accountId'>,
  nowMs: UnixMillis,
): Promise<void> {
  for (const ended of await revokeApiKeys(tx, keyId, nowMs)) {
    await change(accountId, { kind: 'api_key.delete', body: { key_id: ended } });
  }
}
