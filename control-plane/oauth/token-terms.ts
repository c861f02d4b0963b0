import type { Client, KoaContextWithOIDC, ResourceServer } from 'oidc-provider';
import { isId } from '../../shared/model/ids.ts';
import { holdsScope, parseScope, scopes } from '../../shared/model/scopes.ts';
import { secondMs, type UnixMillis } from '../../shared/model/time.ts';
import type { PresentedKey } from '../api-keys/api-key-store.ts';
import { readScopes } from './access-token.ts';
import { toolsUrl } from './challenge.ts';
import type { OAuthDeps } from './deps.ts';
import { oauthLimits } from './limits.ts';
import { findUsableKey } from './usable-key.ts';

interface Refusals {
  readonly invalidTarget: (why: string) => Error;
  readonly invalidScope: (why: string) => Error;
}

/**
 * The terms of a token: its audience is the tools endpoint only (RFC 8707), with its life. Also settles the
 * scopes of the request, because the library calls this before it checks them.
 */
export async function tokenTerms(
  deps: Pick<OAuthDeps, 'sql' | 'clock' | 'baseUrl' | 'offeredScopes'>,
  {
    ctx,
    client,
    resource,
  }: { readonly ctx: KoaContextWithOIDC; readonly client: Client; readonly resource: string },
  refusals: Refusals,
): Promise<ResourceServer> {
  if (resource !== toolsUrl(deps)) throw refusals.invalidTarget('the only resource is the tools endpoint');
  const key = await findUsableKey(deps, ctx.oidc.account?.accountId ?? client.clientId);
  if (isId('key', client.clientId)) settleForKey(ctx, key, refusals);
  else if (ctx.oidc.route === 'authorization') settleForPerson(ctx, deps, refusals);
  return {
    audience: resource,
    // The person's grant and the key's scopes narrow this.
    scope: scopes.join(' '),
    accessTokenFormat: 'opaque',
    accessTokenTTL: Math.floor(lifetimeMs(key, deps.clock.now()) / secondMs),
  };
}

/** A key gets the requested scopes that it holds, by default all (RFC 6749 §3.3). */
function settleForKey(
  { oidc }: KoaContextWithOIDC,
  key: PresentedKey | null,
  { invalidScope }: Refusals,
): void {
  const held = key?.scopes ?? [];
  const isHeld = (text: string): boolean => {
    const scope = parseScope(text);
    return scope !== null && holdsScope(held, scope);
  };
  const asked = oidc.params?.['scope'];
  if (typeof asked === 'string' && !asked.split(' ').every(isHeld)) {
    throw invalidScope('the API key does not hold every scope that was asked for');
  }
  if (oidc.params) oidc.params['scope'] = (asked === undefined ? held : readScopes(asked)).join(' ');
}

/**
 * The key is not known yet: by default the scopes of the tools, without those that can make keys. Unknown
 * scopes are dropped.
 */
function settleForPerson(
  { oidc }: KoaContextWithOIDC,
  { offeredScopes }: Pick<OAuthDeps, 'offeredScopes'>,
  { invalidScope }: Refusals,
): void {
  const asked = oidc.params?.['scope'];
  const settled = asked === undefined ? offeredScopes : readScopes(asked);
  if (settled.length === 0) throw invalidScope('this service has none of these scopes');
  if (oidc.params) oidc.params['scope'] = settled.join(' ');
}

/** An access token never outlives its key. The library requires at least a second. */
export function lifetimeMs(key: PresentedKey | null, nowMs: UnixMillis): number {
  const leftMs = (key?.expiresAtMs ?? Number.POSITIVE_INFINITY) - nowMs;
  return Math.max(secondMs, Math.min(oauthLimits.accessTokenMs, leftMs));
}
