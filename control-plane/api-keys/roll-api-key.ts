import { ApiError } from '../../shared/errors/api-error.ts';
import type { ApiKeyId } from '../../shared/model/ids.ts';
import { isExpired, secondMs, type UnixMillis } from '../../shared/model/time.ts';
import { renderApiKey, renderApiKeyForSidecars } from '../../shared/wire/api/api-key.ts';
import { administer } from '../audit/administer.ts';
import type { Transaction } from '../base/database.ts';
import type { Caller } from '../http/caller.ts';
import type { SigningDeps } from '../signing/deps.ts';
import type { WriteChange } from '../sync/change-transaction.ts';
import { beginOverlap, type LockedApiKey, lockApiKey, shortenKeysEndingWith } from './api-key-store.ts';
import { addApiKey, type IssuedApiKey, makeIssuedKey, refuseMoreThanHeld } from './create-api-key.ts';
import { endApiKey } from './delete-api-key.ts';

/**
 * Replaces a key by a new one of the same name, scopes, mode and expiry, with an id of its own. The old key
 * works on for `overlapMs`; 0 deletes it at once. If the answer is lost, it can be rolled again within that
 * time, with the expiry from before the first roll. The caller learns the new key, so it must hold all its
 * scopes and expire no earlier (contract §2). Keys that end with the old one do not end with the new one.
 */
export async function rollApiKey(
  deps: SigningDeps,
  caller: Caller,
  { keyId, overlapMs }: { readonly keyId: ApiKeyId; readonly overlapMs: number },
): Promise<IssuedApiKey> {
  return administer(deps, caller, async (tx, change) => {
    const old = await lockApiKey(tx, caller, keyId);
    const nowMs = deps.clock.now();
    // An expired key cannot be rolled.
    if (old === null || isExpired(old, nowMs)) throw new ApiError('api_key_not_found');
    refuseMoreThanHeld(caller, old.scopes);
    if (keyId !== caller.actor.id) refuseToOutlive(caller, old);
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

/** A key must not gain a longer life by rolling a longer-lived one. Rolling itself is allowed. */
function refuseToOutlive(caller: Caller, rolled: LockedApiKey): void {
  const endsInTime =
    caller.expiresAtMs === null ||
    (rolled.ownExpiresAtMs !== null && rolled.ownExpiresAtMs <= caller.expiresAtMs);
  const endsWithSame = caller.madeKeysEndWith === null || rolled.endsWithKeyId === caller.madeKeysEndWith;
  if (endsInTime && endsWithSame) return;
  throw new ApiError('insufficient_scope', { message: 'A key cannot roll a key that expires after it.' });
}

async function retireApiKey(
  tx: Transaction,
  change: WriteChange,
  old: LockedApiKey,
  { nowMs, overlapMs }: { readonly nowMs: UnixMillis; readonly overlapMs: number },
): Promise<void> {
  if (overlapMs === 0) {
    await endApiKey(tx, change, old, nowMs);
    return;
  }
  const overlapEndMs = (nowMs + overlapMs) as UnixMillis;
  // The overlap never extends a key's life.
  if (old.expiresAtMs !== null && old.expiresAtMs <= overlapEndMs) return;
  await beginOverlap(tx, old, overlapEndMs);
  const shortened = await shortenKeysEndingWith(tx, old.keyId, overlapEndMs);
  for (const key of [{ ...old, expiresAtMs: overlapEndMs }, ...shortened]) {
    await change(old.accountId, { kind: 'api_key.put', body: renderApiKeyForSidecars(key) });
  }
}
