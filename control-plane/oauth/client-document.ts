import { readJsonObject } from '../../shared/crypto/json-object.ts';
import { limits } from '../../shared/model/limits.ts';
import { isReadAlike } from '../../shared/wire/api/domain.ts';
import type { OAuthDeps } from './deps.ts';
import { oauthLimits } from './limits.ts';

type Fetch = (input: string | URL | Request) => Promise<Response>;

/**
 * Fetches client metadata documents (draft-ietf-oauth-client-id-metadata-document) for the authorization
 * server's library, in place of `fetch`: strangers choose these addresses, so the guard of webhooks checks
 * them first. Throws for refused targets and failed calls.
 */
export function clientDocumentFetch({ outbound }: Pick<OAuthDeps, 'outbound'>): Fetch {
  const underWay: string[] = [];
  return async (input) => {
    const url = input instanceof Request ? input.url : String(input);
    const { host } = new URL(url);
    const isBusy =
      underWay.length >= oauthLimits.clientFetchesAtOnceMax ||
      underWay.filter((each) => each === host).length >= oauthLimits.clientFetchesPerHostMax;
    if (isBusy) throw new Error('too many client documents at once');
    underWay.push(host);
    try {
      const answer = await outbound.request(url, {
        method: 'GET',
        headers: { accept: 'application/json' },
        maxBytes: oauthLimits.clientDocumentBytesMax,
        timeoutMs: oauthLimits.clientDocumentMsMax,
      });
      if (answer.status !== 200) return new Response(null, { status: 502 });
      if (answer.isCut) throw new Error('the client document is too large');
      // Required by the draft: an upload that a site serves as text or a page must not speak for that site.
      if (!jsonPattern.test(answer.headers['content-type'] ?? ''))
        throw new Error('the client document is not JSON');
      const cacheControl = answer.headers['cache-control'];
      const headers = cacheControl === undefined ? {} : { 'cache-control': cacheControl };
      return new Response(JSON.stringify(readClientDocument(answer.body)), { headers });
    } finally {
      underWay.splice(underWay.indexOf(host), 1);
    }
  };
}

/** `application/json`, or a type that is more specific and ends in `+json`. */
const jsonPattern = /^application\/([\w.-]+\+)?json[ \t]*(;|$)/i;

/** Copied for the library to validate; `client_secret` only so that it is refused. */
const kept = ['client_id', 'redirect_uris', 'token_endpoint_auth_method', 'client_secret'];

/**
 * The relevant members of a client's document. The rest (pictures, policies, keys, unsupported grants) would
 * only be reasons to refuse a client that this server can serve. Null: no JSON object, or a redirect that
 * readers may disagree about.
 *
 * Documents seldom say `application_type`, and the library lets only native clients use any port of a
 * loopback address (RFC 8252 §7.3): a client with a redirect other than https is native. A non-loopback http
 * address is then refused.
 */
function readClientDocument(bytes: Uint8Array): object | null {
  const document = readJsonObject(bytes);
  if (document === null) return null;
  const { redirect_uris: redirects, client_name: name } = document;
  if (Array.isArray(redirects) && !redirects.every(isReadAlike)) return null;
  const isWeb = Array.isArray(redirects) && redirects.every((uri) => String(uri).startsWith('https://'));
  return {
    ...Object.fromEntries(Object.entries(document).filter(([field]) => kept.includes(field))),
    ...(typeof name === 'string' ? { client_name: legible(name) } : {}),
    application_type: isWeb ? 'web' : 'native',
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    response_modes: ['query'],
  };
}

/** Removes control and direction characters, with which a name could imitate another. */
export const legible = (name: string): string => name.replaceAll(/\p{C}/gu, '').slice(0, limits.nameCharsMax);
