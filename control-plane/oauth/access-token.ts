import { isId } from '../../shared/model/ids.ts';
import { holdsScope, parseScope, type Scope } from '../../shared/model/scopes.ts';
import { isExpired, type UnixMillis } from '../../shared/model/time.ts';
import { findKeyOfToken, type PresentedKey } from '../api-keys/api-key-store.ts';
import { findAccessToken, subjectOf } from './artifact-store.ts';
import { toolsUrl } from './challenge.ts';
import type { OAuthDeps, TokenSubject } from './deps.ts';

/** 43 characters are the library's 256 random bits. Other texts are not looked up. */
const tokenPattern = /^[A-Za-z0-9_-]{43}$/;

export interface TokenKey {
  /** With the scopes that token and key have in common. */
  readonly key: PresentedKey;
  /** To which the token was given; for client credentials it is the key itself. */
  readonly clientId: string | null;
  /** Of the identity assertion that the token was given for; null: none. It may be switched off by now. */
  readonly subject: TokenSubject | null;
}

/**
 * The API key of an access token, with the scopes that both have. Null: not a token of this service, expired,
 * revoked, or its key is gone. Nothing is cached, so a revocation takes effect at once.
 *
 * Tokens are opaque (RFC 6749 §1.4) and looked up. Rejected: JWTs. Every use looks up the key anyway, the
 * library cannot revoke a JWT, and another signing key would need storage, rotation and documentation.
 */
export async function findKeyByToken(
  deps: Pick<OAuthDeps, 'sql' | 'clock' | 'random' | 'sealer' | 'baseUrl'>,
  token: string,
  nowMs: UnixMillis,
): Promise<TokenKey | null> {
  if (!tokenPattern.test(token)) return null;
  const found = await findAccessToken(deps, token);
  if (found === null || found.aud !== toolsUrl(deps)) return null;
  // The subject of a client's own token is the client, and both are the id of a key.
  const keyId = found.accountId ?? found.clientId;
  const key = keyId !== undefined && isId('key', keyId) ? await findKeyOfToken(deps.sql, keyId) : null;
  if (key === null || isExpired(key, nowMs)) return null;
  const granted = readScopes(found.scope).filter((scope) => holdsScope(key.scopes, scope));
  return { key: { ...key, scopes: granted }, clientId: found.clientId ?? null, subject: subjectOf(found) };
}

/**
 * Scopes as OAuth writes them, with a space between (RFC 6749 §3.3). Those that this service does not have
 * are left out.
 */
export const readScopes = (text: unknown): readonly Scope[] =>
  typeof text !== 'string' ? [] : [...new Set(text.split(' ').flatMap((scope) => parseScope(scope) ?? []))];
