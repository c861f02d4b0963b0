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
 * What a token is good for: its audience is the tools endpoint and nothing else (RFC 8707), and it says for
 * how long it is valid. Fixes the scopes of the request as well, because the library asks here before it
 * looks at them.
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
    // The grant of a person and the scopes of a key say more exactly what it may hold.
    scope: scopes.join(' '),
    accessTokenFormat: 'opaque',
    accessTokenTTL: Math.floor(lifetimeMs(key, deps.clock.now()) / secondMs),
  };
}

/** A key gets what it asks for within its own, and by default all of them (RFC 6749 §3.3). */
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
 * Nobody knows yet which key will be shown: by default it is what the tools need, without the scopes that can
 * make keys. What this service does not have is left out.
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

/** An access token never says that it lasts longer than its key. The library wants a second at least. */
function lifetimeMs(key: PresentedKey | null, nowMs: UnixMillis): number {
  const leftMs = (key?.expiresAtMs ?? Number.POSITIVE_INFINITY) - nowMs;
  return Math.max(secondMs, Math.min(oauthLimits.accessTokenMs, leftMs));
}
