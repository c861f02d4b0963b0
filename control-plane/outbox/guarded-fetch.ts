import { lookup } from 'node:dns';
import { Resolver } from 'node:dns/promises';
import { Agent, type ClientRequest, type IncomingMessage, request } from 'node:http';
import { Agent as TlsAgent, request as tlsRequest } from 'node:https';
import type { LookupFunction } from 'node:net';
import { invalidRequest } from '../../shared/errors/api-error.ts';
import { assert, must } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import { packageVersion } from '../../shared/runtime/package-version.ts';
import { parseWebUrl, webUrlRule } from '../../shared/wire/api/domain.ts';
import { outboxLimits } from './limits.ts';
import { isGloballyRoutable, isIpLiteral, isLinkLocal } from './routable-address.ts';

export interface GuardedRequest {
  readonly method: 'GET' | 'POST';
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** What is read of the answer's body; the rest is dropped, and the connection with it. */
  readonly maxBytes: number;
  /** For everything together: name, connection, request and answer. */
  readonly timeoutMs: number;
  /** Ends it early. */
  readonly signal?: AbortSignal;
}

export interface GuardedAnswer {
  readonly status: number;
  /** Names in lower case; of a header that comes more than once, the first. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  /** There was more than `maxBytes`. */
  readonly isCut: boolean;
}

/** A target that this service never calls. The message says why, and contains only the host of the URL. */
export class TargetRefused extends Error {
  override readonly name = 'TargetRefused';
}

/** There was no whole answer in the given time. */
export class AnswerTooLate extends Error {
  override readonly name = 'AnswerTooLate';
}

/**
 * Calls addresses that strangers have chosen, and nothing inside the network that this program runs in
 * (contract §14):
 *
 *   - https only, no user or password in the URL.
 *   - Only globally routable unicast addresses. Where the host is an address it is judged as written; URL
 *     parsing has brought the decimal, hexadecimal and octal spellings of IPv4 into one form before.
 *     `localhost` and the names below it are refused as written too.
 *   - Where it is a name, every address that it resolves to is judged, in the look-up of the very connection
 *     that is made: the connection goes to the addresses that were judged, and there is no second look-up
 *     whose answer could differ.
 *   - Redirects are answers like others and are not followed; informational answers (1xx) before the answer
 *     are passed over. undici is not used because it takes a `100 Continue` for a fault.
 *   - Time and size are bounded.
 *
 * Connections are kept for `outboxLimits.keepAliveMs` and used again, never for another host or
 * port.
 */
export interface GuardedFetch {
  /**
   * Throws TargetRefused for what can be refused without looking up a name; a name that resolves to a wrong
   * address is found by `request`.
   */
  checkTarget(url: string): void;
  /**
   * Throws TargetRefused, and whatever else keeps an answer from coming. Any answer is returned, whatever its
   * status.
   */
  request(url: string, options: GuardedRequest): Promise<GuardedAnswer>;
  /** Ends all connections at once. */
  close(): Promise<void>;
}

export interface GuardedFetchOptions {
  /** WEBHOOK_ALLOW_PRIVATE: http and any address but link-local ones. For tests and development. */
  readonly allowPrivate: boolean;
  /**
   * Addresses of a name. Default: what DNS says, or what this machine says where private targets are allowed.
   */
  readonly resolve?: (host: string) => Promise<readonly string[]>;
  /** PEM of certificate authorities instead of the usual ones; for tests. */
  readonly ca?: string;
}

export function guardedFetch(options: GuardedFetchOptions): GuardedFetch {
  const { allowPrivate } = options;
  const resolve = options.resolve ?? (allowPrivate ? askThisMachine : askDns());
  const agents = agentsFor(judgingLookup(resolve, allowPrivate), options.ca);
  const running = new Set<ClientRequest>();
  return {
    checkTarget: (url) => void targetOf(url, allowPrivate),
    request: async (url, asked) => {
      const target = targetOf(url, allowPrivate);
      const sent = send(agents, target, asked);
      running.add(sent);
      const deadline = deadlineOf(sent, asked);
      try {
        const answer = await answerTo(sent, asked.body);
        const { statusCode: status = 0 } = answer;
        // Also a 101 that does not say to what: nobody asked, and no `Response` can have it.
        if (status < 200 || status > 599) {
          answer.destroy();
          throw new Error(`the server answers ${status}`);
        }
        const read = await readBody(answer, asked.maxBytes);
        return { status, headers: firstValues(answer.headers), ...read };
      } catch (error) {
        // An answer that is cut off says no more than that.
        throw deadline.endedBy() ?? error;
      } finally {
        deadline.clear();
        running.delete(sent);
      }
    },
    close: async () => {
      for (const sent of running) sent.destroy(new Error('this program stops'));
      for (const agent of Object.values(agents)) agent.destroy();
    },
  };
}

/** Throws `invalid_request` for what the guard refuses without looking up a name. */
export function refuseTarget(outbound: Pick<GuardedFetch, 'checkTarget'>, param: string, url: string): void {
  try {
    outbound.checkTarget(url);
  } catch (error) {
    if (!(error instanceof TargetRefused)) throw error;
    throw invalidRequest(param, `${param} cannot be called: ${error.message}.`);
  }
}

interface Agents {
  readonly plain: Agent;
  readonly tls: TlsAgent;
}

function agentsFor(judged: LookupFunction, ca: string | undefined): Agents {
  const options = {
    keepAlive: true,
    // Of a connection without a request. A server may ask for less in its header `Keep-Alive`, not for more.
    timeout: outboxLimits.keepAliveMs,
    maxSockets: outboxLimits.attemptsAtOnceMax,
    scheduling: 'lifo',
    lookup: judged,
  } as const;
  return { plain: new Agent(options), tls: new TlsAgent(ca === undefined ? options : { ...options, ca }) };
}

function send(agents: Agents, target: URL, { method, headers, body }: GuardedRequest): ClientRequest {
  const isTls = target.protocol === 'https:';
  return (isTls ? tlsRequest : request)(target, {
    agent: isTls ? agents.tls : agents.plain,
    method,
    headers: {
      'user-agent': userAgent,
      ...headers,
      ...(body === undefined ? {} : { 'content-length': Buffer.byteLength(body) }),
    },
  });
}

/** Rejects with what `sent` was destroyed with, or why there is no answer. */
function answerTo(sent: ClientRequest, body: string | undefined): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    sent.once('response', resolve);
    // No other protocol was requested.
    sent.once('upgrade', (_answer, socket) => {
      socket.destroy();
      reject(new Error('the server answers 101'));
    });
    // Stays on: a connection that breaks later emits its error here as well.
    sent.on('error', reject);
    sent.end(body);
  });
}

const userAgent = `agent-trust/${packageVersion} (+webhooks)`;

/**
 * AbortSignal.timeout and AbortSignal.any stay behind when the request is long over; with thousands a second
 * that adds up.
 */
function deadlineOf(sent: ClientRequest, { timeoutMs, signal }: GuardedRequest) {
  let endedBy: Error | null = null;
  const end = (reason: Error) => {
    endedBy = reason;
    sent.destroy(reason);
  };
  const timer = setTimeout(() => end(new AnswerTooLate(`no answer within ${timeoutMs} ms`)), timeoutMs);
  const stop = () => end(signal?.reason);
  if (signal?.aborted === true) stop();
  signal?.addEventListener('abort', stop);
  return {
    endedBy: () => endedBy,
    clear: () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', stop);
    },
  };
}

function targetOf(text: string, allowPrivate: boolean): URL {
  if (text.length > limits.webhookUrlCharsMax) {
    throw new TargetRefused(`a URL has at most ${limits.webhookUrlCharsMax} characters`);
  }
  const url = parseWebUrl(text);
  if (url === null) throw new TargetRefused(`this is not ${webUrlRule}`);
  if (url.protocol !== 'https:' && !(allowPrivate && url.protocol === 'http:')) {
    throw new TargetRefused('only https is called');
  }
  // An IPv6 address is in brackets.
  const host = url.hostname.replace(/^\[|\]$/g, '');
  // For an address no name is looked up, so the hook of the connection would never see it.
  if (isIpLiteral(host) && !mayBeCalled(host, allowPrivate)) throw notRoutable(host, allowPrivate);
  if (!allowPrivate && localhost.test(host)) throw notRoutable(host, allowPrivate);
  return url;
}

/** RFC 6761 §6.3: these names mean this machine, whatever DNS says. */
const localhost = /(^|\.)localhost\.?$/;

const mayBeCalled = (address: string, allowPrivate: boolean): boolean =>
  allowPrivate ? !isLinkLocal(address) : isGloballyRoutable(address);

const notRoutable = (host: string, allowPrivate: boolean): TargetRefused =>
  new TargetRefused(
    allowPrivate
      ? `${host} is, or resolves to, a link-local address, which is never called`
      : `${host} is not, or does not resolve to, a public address`,
  );

/**
 * Looks a name up for a connection that is about to be made, which then goes to one of these addresses and to
 * no other.
 */
export function judgingLookup(
  resolve: (host: string) => Promise<readonly string[]>,
  allowPrivate: boolean,
): LookupFunction {
  return (host, options, callback) => {
    const answer = async () => {
      const addresses = await resolve(host);
      // One wrong address among right ones is no accident, and which of them a connection takes is random.
      const isRefused = !addresses.every((address) => mayBeCalled(address, allowPrivate));
      if (isRefused || addresses.length === 0) throw notRoutable(host, allowPrivate && isRefused);
      return addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
    };
    answer().then(
      (found) => {
        if (options.all === true) return callback(null, found);
        const { address, family } = must(found[0], 'there is an address');
        callback(null, address, family);
      },
      (error: Error) => callback(error, []),
    );
  };
}

/**
 * DNS itself, without a thread: the operating system's look-up has four threads for the whole process, and
 * four names whose servers do not answer would block all deliveries.
 */
function askDns(): (host: string) => Promise<readonly string[]> {
  const resolver = new Resolver({ timeout: limits.webhookTimeoutMs / 4, tries: 2 });
  return async (host) => {
    const [four, six] = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
    const found = [four, six].flatMap((each) => (each.status === 'fulfilled' ? each.value : []));
    if (found.length === 0 && four.status === 'rejected') throw four.reason;
    return found;
  };
}

/** With /etc/hosts and the names of a compose network. */
const askThisMachine = (host: string): Promise<readonly string[]> =>
  new Promise((resolve, reject) => {
    lookup(host, { all: true }, (error, found) =>
      error === null ? resolve(found.map(({ address }) => address)) : reject(error),
    );
  });

async function readBody(
  answer: IncomingMessage,
  maxBytes: number,
): Promise<{ readonly body: Uint8Array; readonly isCut: boolean }> {
  assert(maxBytes > 0, 'some of an answer is read');
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  // Leaving the loop early ends the connection.
  for await (const piece of answer) {
    pieces.push(piece);
    bytes += piece.length;
    if (bytes > maxBytes) break;
  }
  return { body: Buffer.concat(pieces).subarray(0, maxBytes), isCut: bytes > maxBytes };
}

function firstValues(
  headers: Readonly<Record<string, string | string[] | undefined>>,
): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) => {
      const first = Array.isArray(value) ? value[0] : value;
      return first === undefined ? [] : [[name, first] as const];
    }),
  );
}
