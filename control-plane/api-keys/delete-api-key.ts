import { ApiError } from '../../shared/errors/api-error.ts';
import type { ApiKeyId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Deps } from '../deps.ts';
import type { Caller } from '../http/auth.ts';
import { changeTransaction } from '../sync/change-transaction.ts';
import { lockApiKey, revokeApiKey } from './api-key-store.ts';

/** Deletes a key for good, here with the answer and at the sidecars with the push. Resolves to the moment of it. */
export async function deleteApiKey(deps: Deps, caller: Caller, keyId: ApiKeyId): Promise<UnixMillis> {
  return changeTransaction(deps, async (tx, change) => {
    const key = await lockApiKey(tx, caller, keyId);
    if (key === null) throw new ApiError('api_key_not_found');
    const nowMs = deps.clock.now();
    await revokeApiKey(tx, keyId, nowMs);
    await change(key.accountId, { kind: 'api_key.delete', body: { key_id: keyId } });
    return nowMs;
  });
}
