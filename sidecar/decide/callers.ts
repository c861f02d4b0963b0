import { LRUCache } from 'lru-cache';
import { hashApiKey, parseApiKey } from '../../shared/crypto/api-key.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { ApiKeyId } from '../../shared/model/ids.ts';
import type { Mode } from '../../shared/model/mode.ts';
import { holdsScope, type Scope } from '../../shared/model/scopes.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { decideLimits } from './limits.ts';

export interface Caller {
  readonly keyId: ApiKeyId;
  readonly mode: Mode;
  readonly scopes: readonly Scope[];
}

/**
 * What the replica knows of the keys of its account; asked anew for each request, so that a revoked key ends
 * at once.
 */
export interface KnownCallers {
  caller(keyHash: string, nowMs: UnixMillis): Caller | null;
  readonly isAccountSuspended: boolean;
  /** Another number after each change of what is known. What ends by time alone does not change it. */
  readonly version: number;
}

/**
 * Tells from the `Authorization` header who calls, or throws `unauthorized`, `account_suspended` or
 * `insufficient_scope`.
 */
export type Authenticate = (authorization: string, required: Scope, nowMs: UnixMillis) => Caller;

export function authenticator(known: KnownCallers): Authenticate {
  // A client sends the same header each time. Remembered is only the way from the header to its hash, and
  // only for keys that were valid once: made-up ones would push out the real ones.
  const hashes = new LRUCache<string, string>({ max: decideLimits.presentedKeysMax });
  // The last caller let in. Each request is looked at twice, when it arrives and when it is decided,
  // and those of one moment are mostly of one caller: against the same state, in the same millisecond, the
  // same header is let in again.
  let last: LetIn | null = null;
  return (authorization, required, nowMs) => {
    const { version } = known;
    if (
      last !== null &&
      last.version === version &&
      last.nowMs === nowMs &&
      last.authorization === authorization &&
      last.required === required
    )
      return last.caller;
    const remembered = hashes.get(authorization);
    const keyHash = remembered ?? hashPresentedKey(authorization);
    const caller = keyHash === null ? null : known.caller(keyHash, nowMs);
    if (keyHash === null || caller === null) throw new ApiError('unauthorized');
    if (remembered === undefined) hashes.set(authorization, keyHash);
    refuseSuspended(known);
    if (!holdsScope(caller.scopes, required)) {
      throw new ApiError('insufficient_scope', {
        message: `This endpoint requires an API key with the scope ${required}.`,
      });
    }
    last = { authorization, required, nowMs, version, caller };
    return caller;
  };
}

/** The last caller let in, and everything this depended on. */
interface LetIn {
  readonly authorization: string;
  readonly required: Scope;
  readonly nowMs: UnixMillis;
  readonly version: number;
  readonly caller: Caller;
}

export function refuseSuspended(known: Pick<KnownCallers, 'isAccountSuspended'>): void {
  if (known.isAccountSuspended) throw new ApiError('account_suspended');
}

/** RFC 9110 §11.1: the scheme is case-insensitive. */
const bearer = /^bearer +([\x21-\x7e]+)$/i;

function hashPresentedKey(authorization: string): string | null {
  const key = bearer.exec(authorization)?.[1];
  return key === undefined || parseApiKey(key) === null ? null : hashApiKey(key);
}
