import type { RequestHead } from '../../http/server.ts';

/**
 * The agent's own headers that a proof of possession may be in, or cover (contract §15). Others, but for the
 * two that carry passports, are unknown here: a signature that covers one is not valid at this address.
 */
export const proofHeaders = [
  'dpop',
  'signature-input',
  'signature',
  'signature-agent',
  'content-digest',
  'content-type',
  'content-length',
  'date',
  'accept',
  'user-agent',
] as const;

/** What a trusted proxy says of the original request. */
export interface OriginalRequest {
  readonly method: string;
  /** Path and query; a whole URL where the proxy sends one. */
  readonly target: string;
  /** Null: it says none, and what is signed cannot be known. */
  readonly host: string | null;
  /** Of each trusted header that names one. */
  readonly schemes: readonly string[];
}

/** By a tag that is meant for us: other signatures are those of proxies. */
const isForUs = (input: string): boolean => /; *tag="(?:web-bot-auth|agent-trust)"/.test(input);

/**
 * `request.proof` of a request that a proxy asks about. Null: it presents none. `headers`: by their names;
 * '' where one is absent.
 */
export function proofOf(
  original: OriginalRequest,
  headers: (name: string) => string,
  { authorization }: Pick<RequestHead, 'authorization'>,
): Readonly<Record<string, unknown>> | null {
  const [dpop, input] = [headers('dpop'), headers('signature-input')];
  const { method } = original;
  const url = urlOf(original);
  if (isForUs(input)) {
    const sent = [...proofHeaders, 'x-agent-passport'].flatMap((name) => {
      const value = headers(name);
      return value === '' || name === 'dpop' ? [] : [[name, value]];
    });
    const shown = authorization === '' ? {} : { authorization };
    // Both at once are no proof, at whatever door.
    return {
      ...{ method, url, headers: { ...Object.fromEntries(sent), ...shown } },
      ...(dpop !== '' && { dpop }),
    };
  }
  return dpop === '' ? null : { dpop, method, url };
}

/**
 * '' where it cannot be known, so that no proof is good. Behind a proxy it is https, if that says nothing.
 */
function urlOf({ target, host, schemes }: OriginalRequest): string {
  if (/^https?:\/\//i.test(target)) return target;
  const [scheme = 'https', ...others] = new Set(schemes);
  const isKnown = host !== null && target.startsWith('/') && others.length === 0;
  return isKnown && /^https?$/.test(scheme) ? `${scheme}://${host}${target}` : '';
}
