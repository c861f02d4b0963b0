import type { IncomingMessage } from 'node:http';
import { trimBlanks } from '../shared/wire/api/request-headers.ts';

/** Of one connection, and not of the message (RFC 9110 §7.6.1). */
const hopByHop: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/**
 * Headers that lead a client to another address, past the gate, and with its passport: clients send their own
 * headers with every fetch for the server.
 */
const leading: ReadonlySet<string> = new Set(['alt-svc', 'content-location', 'link', 'location', 'refresh']);

/** The challenge of the server without the address of its metadata (RFC 9728). */
const withoutMetadata = (challenge: string): string =>
  challenge
    .replaceAll(/\bresource_metadata\s*=\s*(?:"(?:[^"\\]|\\.)*"|[^\s,"]*)/gi, '')
    .replaceAll(/,(?:\s*,)+/g, ',')
    .replaceAll(/^(\s*[\w-]+\s+),\s*|[\s,]+$/g, '$1');

/** Headers of an answer, as a client may see them. */
export function answeredHeaders(
  answer: IncomingMessage,
  isDropped: (name: string) => boolean = () => false,
): string[] {
  const passed = passedHeaders(answer, (name) => leading.has(name) || isDropped(name));
  return passed.map((text, at) =>
    at % 2 === 1 && passed[at - 1]?.toLowerCase() === 'www-authenticate' ? withoutMetadata(text) : text,
  );
}

/** Headers that mean something here, and must not occur twice, because readers may use either. */
const single: ReadonlySet<string> = new Set([
  'authorization',
  'content-encoding',
  'content-type',
  'last-event-id',
  'mcp-method',
  'mcp-name',
  'mcp-protocol-version',
  'mcp-session-id',
  'x-agent-approval',
  'x-agent-passport',
]);

/** The name of such a repeated header; null: none. */
export const repeatedHeader = ({ headersDistinct }: IncomingMessage): string | null =>
  [...single].find((name) => (headersDistinct[name]?.length ?? 0) > 1) ?? null;

/** Names and values in turn as they came, without those of the connection and without these. */
export function passedHeaders(
  { rawHeaders, headers }: IncomingMessage,
  isDropped: (name: string, value: string) => boolean,
): string[] {
  const named = (headers.connection ?? '').split(',').map((name) => trimBlanks(name).toLowerCase());
  const passed: string[] = [];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const [name = '', value = ''] = rawHeaders.slice(at, at + 2);
    const lower = name.toLowerCase();
    const isLeft = hopByHop.has(lower) || named.includes(lower) || isInDisguise(lower);
    if (!isLeft && !isDropped(lower, value)) passed.push(name, value);
  }
  return passed;
}

/** Servers behind CGI and its like take `x_agent_passport` for `x-agent-passport`. */
const isInDisguise = (name: string): boolean => name.includes('_') && single.has(name.replaceAll('_', '-'));

const loopbackNames: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '[::1]']);

/** Which `Host` and `Origin` a request may have, beside those of this machine. */
export interface Site {
  /** Host names without a port. */
  readonly hosts: readonly string[];
  readonly origins: readonly string[];
}

/**
 * Why the request may come from a page that points its own name at this machine (DNS rebinding), which the
 * protocol requires to refuse; null if it cannot.
 */
export function foreignSite({ headers: { host, origin } }: IncomingMessage, site: Site): string | null {
  const named = nameOf(`http://${host ?? ''}`);
  if (!loopbackNames.has(named) && !site.hosts.includes(named)) {
    return 'This Host is not served here. --allow-host adds a name.';
  }
  const isKnown = origin === undefined || loopbackNames.has(nameOf(origin)) || site.origins.includes(origin);
  return isKnown ? null : 'Requests from this Origin are refused. --allow-origin adds one.';
}

const nameOf = (url: string): string => (URL.canParse(url) ? new URL(url).hostname : '');
