/**
 * Room `control-plane/api-keys`: API keys: created, rolled, deleted. One file per use case, SQL in
 * `api-key-store.ts`.
 */

import { apiKeyRandomBytes, hashApiKey, makeApiKey } from '../../shared/crypto/api-key.ts';
import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import type { ApiKey } from '../../shared/model/api-key.ts';
import type { AccountId, ApiKeyId } from '../../shared/model/ids.ts';
import type { Mode } from '../../shared/model/mode.ts';
import { holdsScope, type Scope } from '../../shared/model/scopes.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { type NewApiKey, renderApiKeyForSidecars } from '../../shared/wire/api/api-key.ts';
import type { Transaction } from '../base/database.ts';
import type { Caller } from '../http/caller.ts';
import type { SigningDeps } from '../signing/deps.ts';
import type { WriteChange } from '../sync/change-transaction.ts';
import { holdApiKey, insertApiKey } from './api-key-store.ts';

/** A new key, while its plaintext is known. */
export interface IssuedApiKey {
  readonly apiKey: ApiKey;
  /** A secret: answered once, never stored or logged. */
  readonly key: string;
}

/**
 * Creates a key that grants nothing its creator does not hold and never outlives it, in the creator's mode
 * unless `admin:*` chooses (contract §2). Without `expires_at` it expires when its creator does. A test key
 * cannot choose live mode: with `admin:*` it still holds nothing live to grant. Throws `invalid_request` for
 * a test key with `sidecars:connect`, which installScopes would refuse anyway.
 */
export async function createApiKey(
  tx: Transaction,
  change: WriteChange,
  deps: Pick<SigningDeps, 'random' | 'clock'>,
  { caller, wanted }: { readonly caller: Caller; readonly wanted: NewApiKey },
): Promise<IssuedApiKey> {
  refuseMoreThanHeld(caller, wanted.scopes);
  const mode = wanted.mode ?? caller.mode;
  if (mode !== caller.mode && !(caller.mode === 'live' && holdsScope(caller.scopes, 'admin:*'))) {
    throw new ApiError('insufficient_scope', {
      param: 'mode',
      message: 'Only a live key with the scope admin:* creates keys of the other mode.',
    });
  }
  if (mode === 'test' && wanted.scopes.includes('sidecars:connect')) {
    throw invalidRequest('scopes', 'A test key cannot hold sidecars:connect: a sidecar serves both modes.');
  }
  // A concurrent deletion must not miss the new key.
  if (caller.madeKeysEndWith !== null && !(await holdApiKey(tx, caller.madeKeysEndWith))) {
    throw new ApiError('unauthorized');
  }
  const issued = makeIssuedKey(deps, {
    ...wanted,
    accountId: caller.accountId,
    mode,
    expiresAtMs: expiryWithin(caller, wanted.expiresAtMs),
    endsWithKeyId: caller.madeKeysEndWith,
  });
  await addApiKey(tx, change, issued.apiKey);
  return issued;
}

function expiryWithin({ expiresAtMs: latestMs }: Caller, wantedMs: UnixMillis | null): UnixMillis | null {
  if (latestMs === null || wantedMs === null) return wantedMs ?? latestMs;
  if (wantedMs <= latestMs) return wantedMs;
  throw invalidRequest('expires_at', 'expires_at must not be later than that of the key that creates it.');
}

/** Creating or rolling a key must grant no new right, and deleting one must not disable a stronger key. */
export function refuseMoreThanHeld(caller: Caller, scopes: readonly Scope[]): void {
  const missing = scopes.find((scope) => !holdsScope(caller.scopes, scope));
  if (missing === undefined) return;
  throw new ApiError('insufficient_scope', {
    param: 'scopes',
    message: `A key creates, rolls and deletes only keys whose scopes it holds itself; yours does not hold ${missing}.`,
  });
}

export function makeIssuedKey(
  { random, clock }: Pick<SigningDeps, 'random' | 'clock'>,
  of: {
    readonly accountId: AccountId;
    readonly mode: Mode;
    readonly name: string;
    readonly scopes: readonly Scope[];
    readonly expiresAtMs: UnixMillis | null;
    readonly endsWithKeyId: ApiKeyId | null;
  },
): IssuedApiKey {
  const key = makeApiKey(of.mode, random.bytes(apiKeyRandomBytes));
  const nowMs = clock.now();
  const apiKey: ApiKey = {
    keyId: random.newId('key', nowMs),
    accountId: of.accountId,
    name: of.name,
    scopes: of.scopes,
    mode: of.mode,
    keyHash: hashApiKey(key),
    prefix: key.slice(0, 12),
    last4: key.slice(-4),
    createdAtMs: nowMs,
    expiresAtMs: of.expiresAtMs,
    endsWithKeyId: of.endsWithKeyId,
    revokedAtMs: null,
    lastUsedAtMs: null,
  };
  return { apiKey, key };
}

/** Stores a key and publishes it to the sidecars of its account, which accept it from callers. */
export async function addApiKey(tx: Transaction, change: WriteChange, apiKey: ApiKey): Promise<void> {
  await insertApiKey(tx, apiKey);
  await change(apiKey.accountId, { kind: 'api_key.put', body: renderApiKeyForSidecars(apiKey) });
}
