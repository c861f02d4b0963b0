import { ApiError } from '../../shared/errors/api-error.ts';
import type { ApiKeyId } from '../../shared/model/ids.ts';
import { isExpired, secondMs, type UnixMillis } from '../../shared/model/time.ts';
import { renderApiKey, renderApiKeyForSidecars } from '../../shared/wire/api-key.ts';
import { administer } from '../audit/administer.ts';
import type { Deps, Transaction } from '../deps.ts';
import type { Caller } from '../http/auth.ts';
import type { WriteChange } from '../sync/change-transaction.ts';
import { beginOverlap, type LockedApiKey, lockApiKey, revokeApiKey } from './api-key-store.ts';
import { addApiKey, type IssuedApiKey, makeIssuedKey, refuseMoreThanHeld } from './create-api-key.ts';

/**
 * Replaces a key by a new one of the same name, scopes, mode and expiry, with an id of its own. The old key works on for
 * `overlapMs` and is deleted at once where that is 0. While it does, it can be rolled again, by whoever lost the answer: the expiry is the one
 * that it had before the first time. The caller learns the new key, so it must hold all of its scopes.
 */
export async function rollApiKey(
  deps: Deps,
  caller: Caller,
  { keyId, overlapMs }: { readonly keyId: ApiKeyId; readonly overlapMs: number },
): Promise<IssuedApiKey> {
  return administer(deps, caller, async (tx, change) => {
    const old = await lockApiKey(tx, caller, keyId);
    const nowMs = deps.clock.now();
    // An expired key has nothing left to hand on.
    if (old === null || isExpired(old, nowMs)) throw new ApiError('api_key_not_found');
    refuseMoreThanHeld(caller, old.scopes);
    const issued = makeIssuedKey(deps, { ...old, expiresAtMs: old.ownExpiresAtMs });
    await addApiKey(tx, change, issued.apiKey);
    await retireApiKey(tx, change, old, { nowMs, overlapMs });
    const after = { ...renderApiKey(issued.apiKey), overlap_s: overlapMs / secondMs };
    return {
      result: issued,
      audited: { operation: 'rollApiKey', target: keyId, before: renderApiKey(old), after },
    };
  });
}

async function retireApiKey(
  tx: Transaction,
  change: WriteChange,
  old: LockedApiKey,
  { nowMs, overlapMs }: { readonly nowMs: UnixMillis; readonly overlapMs: number },
): Promise<void> {
  if (overlapMs === 0) {
    await revokeApiKey(tx, old.keyId, nowMs);
    await change(old.accountId, { kind: 'api_key.delete', body: { key_id: old.keyId } });
    return;
  }
  const overlapEndMs = (nowMs + overlapMs) as UnixMillis;
  // The overlap never prolongs a key.
  if (old.expiresAtMs !== null && old.expiresAtMs <= overlapEndMs) return;
  await beginOverlap(tx, old, overlapEndMs);
  const body = renderApiKeyForSidecars({ ...old, expiresAtMs: overlapEndMs });
  await change(old.accountId, { kind: 'api_key.put', body });
}
