import { setTimeout as sleep } from 'node:timers/promises';
import { isJsonObject } from '../shared/crypto/json-object.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import { StartError } from '../shared/runtime/start-error.ts';
import { proxyLimits } from './limits.ts';
import type { Standings } from './standings.ts';
import type { Refused, ToolPins } from './tool-pins.ts';
import { Upstream, UpstreamError } from './upstream.ts';

/**
 * Asks the sidecar about a passport that is none, which shows whether it accepts the key and knows the gate;
 * and reads the pins of the gate from the control plane. Throws StartError if no call could ever be decided.
 * Without an answer the proxy starts, and refuses calls until the sidecar is there.
 */
export async function checkGate(options: {
  readonly standings: Standings;
  readonly pins: ToolPins;
  readonly sidecarUrl: string;
  readonly controlPlaneUrl: string;
  readonly gate: string;
  readonly logger: Logger;
}): Promise<void> {
  const { standings, pins, gate, sidecarUrl, controlPlaneUrl, logger } = options;
  const standing = await standings.ask('');
  const isAway = standing.kind === 'unknown' && isPassing(standing.status);
  refuse(standing.kind === 'unknown' && !isAway ? faultAtSidecar(standing, sidecarUrl) : null, gate);
  const unread = await pins.readAtStart();
  refuse(unread === null ? null : faultOf(unread, controlPlaneUrl), gate);
  if (isAway)
    logger.warn({ sidecar: sidecarUrl }, 'the sidecar does not answer: key and gate are not checked yet');
  if (unread !== null) logger.warn(unread, 'pins cannot be read: calls are refused where they are enforced');
}

function refuse(fault: string | null, gate: string): void {
  if (fault === null) return;
  throw new StartError(
    fault === 'gate_not_found'
      ? `there is no gate ${gate} for this API key. --gate takes one of its account and mode.`
      : fault,
  );
}

const isPassing = (status: number | null): boolean => status === null || status === 429 || status >= 500;

function faultAtSidecar(refused: Refused, url: string): string {
  if (refused.code === 'route_not_found')
    return `${url} does not say whether passports stand: --sidecar takes a sidecar of this version.`;
  return faultOf(refused, url) ?? `${url} refuses to decide: ${refused.detail}`;
}

/** Null: calls may be decided all the same. */
function faultOf({ status, code }: Refused, url: string): string | null {
  if (code === 'gate_not_found') return code;
  if (status === 401) return `${url} refuses the API key. Set AGENT_TRUST_API_KEY to a valid one.`;
  return code === 'insufficient_scope'
    ? 'the API key lacks the scope enforcement:check. Make one that has it.'
    : null;
}

/**
 * Whether an MCP server answers there, with a `ping`, which every revision of the protocol knows and no
 * session is needed for to be refused. Waits a while for one that starts beside the proxy. Throws StartError.
 */
export async function checkUpstream(
  url: URL,
  {
    answerMsMax,
    logger,
    stopping,
  }: { readonly answerMsMax: number; readonly logger: Logger; readonly stopping: AbortSignal },
): Promise<void> {
  const deadlineAt = performance.now() + proxyLimits.upstreamStartMsMax;
  for (;;) {
    const leftMs = Math.max(deadlineAt - performance.now(), proxyLimits.upstreamStartPauseMs);
    const fault = await faultAt(url, Math.min(answerMsMax, leftMs), logger);
    if (fault === null) return;
    if (!fault.isPassing || performance.now() > deadlineAt) {
      throw new StartError(`--upstream ${url.origin}${url.pathname}: ${fault.message}`);
    }
    await sleep(proxyLimits.upstreamStartPauseMs, undefined, { signal: stopping });
  }
}

interface UpstreamFault {
  readonly message: string;
  /** It may start yet. */
  readonly isPassing: boolean;
}

const ping = Buffer.from('{"jsonrpc":"2.0","id":"agent-trust","method":"ping"}');

async function faultAt(url: URL, answerMsMax: number, logger: Logger): Promise<UpstreamFault | null> {
  const upstream = new Upstream(url, { answerMsMax, logger });
  const ended = new AbortController();
  const timer = setTimeout(() => ended.abort(), answerMsMax);
  try {
    const answer = await upstream.send({
      method: 'POST',
      search: '',
      headers: [
        ...['Host', url.host, 'Content-Type', 'application/json', 'Content-Length', String(ping.length)],
        ...['Accept', 'application/json, text/event-stream', 'Mcp-Method', 'ping'],
      ],
      body: ping,
      signal: ended.signal,
    });
    answer.on('error', () => undefined);
    const { statusCode: status = 0, headers } = answer;
    const isStream = /^text\/event-stream\b/i.test(headers['content-type'] ?? '');
    if (isStream || (await speaksJsonRpc(answer))) return null;
    if (status >= 500) return { message: `the server answers ${status}.`, isPassing: true };
    // 400 and 401 of what wants a session or a token first, 202 of what does not answer a ping.
    const isOpen = status === 202 || (status >= 400 && status !== 404 && status !== 405);
    return isOpen ? null : { message: `no MCP server answers there (HTTP ${status}).`, isPassing: false };
  } catch (error) {
    if (!(error instanceof UpstreamError)) throw error;
    const cause = (error.cause as NodeJS.ErrnoException | undefined)?.code;
    return {
      message: cause === undefined ? error.message : `${error.message} ${cause}`,
      // It has answered where there is no cause: with a redirect.
      isPassing: cause !== undefined || error.status === 504,
    };
  } finally {
    clearTimeout(timer);
    upstream.close();
  }
}

async function speaksJsonRpc(answer: AsyncIterable<Buffer>): Promise<boolean> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of answer) {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > proxyLimits.firstAnswerBytesMax) return false;
    }
    const json: unknown = JSON.parse(Buffer.concat(chunks).toString('utf8'));
    return isJsonObject(json) && json['jsonrpc'] === '2.0';
  } catch {
    // Cut off, or not JSON.
    return false;
  }
}
