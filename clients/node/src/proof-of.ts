import { createHash } from 'node:crypto';
import type { IncomingBody } from './incoming-body.ts';

/** A request, as far as a proof of possession is about it. */
interface ProvenRequest {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  readonly header: (name: string) => string | undefined;
  readonly body: IncomingBody;
}

/** Other signatures are those of proxies. */
const isForUs = (input: string): boolean => /; *tag="(?:web-bot-auth|agent-trust)"/.test(input);
const componentName = /"([a-z0-9!#$%&'*+.^_`|~-]{1,64})"/g;
/** The token is sent as `passport`: what carries it need not be repeated. */
const carriesToken: ReadonlySet<string> = new Set(['authorization', 'x-agent-passport']);
const componentsMax = 32;

/**
 * `request.proof` of an incoming request (contract §5): what its own headers hold, for its own method and the
 * URL at `origin`. Undefined: it presents none, or there is no origin, without which a proof for another
 * server would count here.
 */
export function proofOf(
  { method, path, header, body }: ProvenRequest,
  origin: string | undefined,
): Readonly<Record<string, unknown>> | undefined {
  if (origin === undefined) return undefined;
  const url = origin.replace(/\/+$/, '') + (path.startsWith('/') ? path : `/${path}`);
  const input = header('signature-input') ?? '';
  const dpop = header('dpop');
  if (isForUs(input)) {
    const digest = digestHeaderOf(body, input);
    return {
      ...{ method, url, headers: signedHeaders(input, header) },
      ...(digest !== null && { content_digest: digest }),
      // Both at once are `proof_invalid`.
      ...(dpop !== undefined && { dpop }),
    };
  }
  return dpop === undefined ? undefined : { dpop, method, url };
}

function signedHeaders(input: string, header: ProvenRequest['header']): Readonly<Record<string, string>> {
  const names = new Set(['signature-input', 'signature']);
  for (const [, name = ''] of input.matchAll(componentName)) {
    if (names.size >= componentsMax) break;
    names.add(name);
  }
  const entries: [string, string][] = [];
  for (const name of names) {
    const value = header(name);
    if (value === undefined) continue;
    // Another scheme of Authorization is not a passport, and may be covered, too.
    const isToken = carriesToken.has(name) && (name !== 'authorization' || /^Passport [^ ]+$/.test(value));
    if (!isToken) entries.push([name, value]);
  }
  return Object.fromEntries(entries);
}

/**
 * Of bytes or text alone: a value that a framework has parsed may have been other bytes. Of an empty body
 * only where a digest was signed: the body may have been taken away.
 */
function digestHeaderOf(body: IncomingBody, input: string): string | null {
  if (body.kind === 'unread') return null;
  const value = body.kind === 'none' ? '' : body.value;
  if (typeof value !== 'string' && !(value instanceof Uint8Array)) return null;
  if (value.length === 0 && !input.includes('"content-digest"')) return null;
  return `sha-256=:${createHash('sha256').update(value).digest('base64')}:`;
}
