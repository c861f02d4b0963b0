import { Readable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { Pool } from 'undici';
import { replicaLimits } from './limits.ts';

/** One call to the control plane; it crosses threads. */
export interface Call {
  /** Below `/v1/sync/`. */
  readonly path: string;
  /** With a body: POST. */
  readonly body: string | Uint8Array | null;
  /** In addition to `HttpCallerOptions.headers`. */
  readonly headers: Readonly<Record<string, string>>;
  /** Bound of the answer. */
  readonly bytesMax: number;
  readonly timeMsMax: number;
  /** Settlements have their own connections, so that hanging ones hold up nothing else. */
  readonly by: 'settlements' | 'others';
}

export interface Answer {
  readonly status: number;
  readonly text: string;
  /** The target of a redirect, without its query. */
  readonly location?: string;
}

export interface HttpCallerOptions {
  /** Without `/v1`. */
  readonly origin: string;
  /** Of every call. */
  readonly headers: Readonly<Record<string, string>>;
}

/** The connections to the control plane. Independent of the calls' content; no retries. */
export interface HttpCaller {
  /**
   * Resolves to the HTTP answer, whatever its status. Rejects if there is none in the call's time, if it is
   * too long, and when `signal` ends it.
   */
  attempt(call: Call, signal: AbortSignal): Promise<Answer>;
}

export function httpCaller({ origin, headers }: HttpCallerOptions): HttpCaller {
  // No timeouts of the pool: each call has a deadline.
  const poolOf = (connections: number): Pool =>
    new Pool(origin, { connections, headersTimeout: 0, bodyTimeout: 0 });
  const pools = {
    settlements: poolOf(replicaLimits.settlementConnectionsMax),
    others: poolOf(replicaLimits.controlPlaneConnectionsMax),
  };
  return {
    attempt: async (call, signal) => {
      const {
        statusCode,
        headers: answered,
        body,
      } = await pools[call.by].request({
        method: call.body === null ? 'GET' : 'POST',
        path: `/v1/sync/${call.path}`,
        headers: {
          ...headers,
          ...call.headers,
          ...(call.body === null ? {} : { 'content-type': 'application/json' }),
          ...(call.body instanceof Uint8Array && { 'content-length': String(call.body.byteLength) }),
        },
        body: call.body instanceof Uint8Array ? Readable.from(piecesOf(call.body)) : call.body,
        signal: AbortSignal.any([signal, AbortSignal.timeout(call.timeMsMax)]),
      });
      const location = shownLocation(answered['location'], origin);
      return {
        status: statusCode,
        text: await readText(body, call.bytesMax),
        ...(location !== null && { location }),
      };
    },
  };
}

function* piecesOf(body: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < body.byteLength; at += replicaLimits.bodyPieceBytes)
    yield body.subarray(at, at + replicaLimits.bodyPieceBytes);
}

async function readText(body: AsyncIterable<Uint8Array>, bytesMax: number): Promise<string> {
  // Not concatenated as bytes: the C library retains free memory of the size of its largest block.
  const decoder = new StringDecoder('utf8');
  let text = '';
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.byteLength;
    if (bytes > bytesMax) throw new Error(`the control plane answers with more than ${bytesMax} bytes`);
    text += decoder.write(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength));
  }
  return text + decoder.end();
}

/** Origin and path of a redirect, because a query may hold a secret. Null: no redirect. */
function shownLocation(header: string | readonly string[] | undefined, origin: string): string | null {
  const given = typeof header === 'string' ? header : header?.[0];
  if (given === undefined || !URL.canParse(given, origin)) return null;
  const { origin: where, pathname } = new URL(given, origin);
  return `${where}${pathname}`.slice(0, locationCharsMax);
}

const locationCharsMax = 256;
