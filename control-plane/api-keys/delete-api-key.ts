import { ApiError } from '../../shared/errors/api-error.ts';
import type { ApiKeyId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { renderApiKey } from '../../shared/wire/api-key.ts';
import { administer } from '../audit/administer.ts';
import type { Deps } from '../deps.ts';
import type { Caller } from '../http/auth.ts';
import { lockApiKey, revokeApiKey } from './api-key-store.ts';

/** Deletes a key for good, here with the answer and at the sidecars with the push. Resolves to the moment of it. */
export async function deleteApiKey(deps: Deps, caller: Caller, keyId: ApiKeyId): Promise<UnixMillis> {
  return administer(deps, caller, async (tx, change) => {
    const key = await lockApiKey(tx, caller, keyId);
    if (key === null) throw new ApiError('api_key_not_found');
    const nowMs = deps.clock.now();
    await revokeApiKey(tx, keyId, nowMs);
    await change(key.accountId, { kind: 'api_key.delete', body: { key_id: keyId } });
    const before = renderApiKey(key);
    return { result: nowMs, audited: { operation: 'deleteApiKey', target: keyId, before, after: null } };
  });
}
