import { Agent, request } from 'undici';
import { secondMs } from '../model/time.ts';
import { codeOf } from '../runtime/system-error.ts';
import { telemetryLimits } from './limits.ts';

/** What became of one request. */
export type Outcome =
  /** `answer`: its body, as far as it was read. */
  | { readonly kind: 'taken'; readonly answer: Uint8Array }
  /** It may be sent again. `afterMs`: what `Retry-After` asks for; null: nothing. */
  | { readonly kind: 'again'; readonly afterMs: number | null; readonly about: object }
  | { readonly kind: 'refused'; readonly about: object };

export interface Endpoint {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** Statuses after which OTLP/HTTP allows another try. */
const passing: ReadonlySet<number> = new Set([429, 502, 503, 504]);

/** Sends requests to one address, one connection at a time. */
export class Collector {
  readonly #endpoint: Endpoint;
  // Redirects are not followed: the headers are for this address alone.
  readonly #agent = new Agent({ connections: 1 });

  constructor(endpoint: Endpoint) {
    this.#endpoint = endpoint;
  }

  /** Never rejects. `signal` ends it early. */
  async send(body: Uint8Array, signal: AbortSignal): Promise<Outcome> {
    const { url, headers } = this.#endpoint;
    const over = new AbortController();
    const end = (): void => over.abort();
    // Not `AbortSignal.any`, which on Node 20 stays with a signal that lives as long as the program.
    const timer = setTimeout(end, telemetryLimits.answerMsMax);
    signal.addEventListener('abort', end, { once: true });
    if (signal.aborted) end();
    try {
      const answer = await request(url, {
        method: 'POST',
        headers: { ...headers },
        body,
        dispatcher: this.#agent,
        signal: over.signal,
      });
      const { statusCode: status } = answer;
      const text = await readStart(answer.body);
      // Also where the rest of its answer does not come: sent again, it would be taken twice.
      if (status >= 200 && status < 300) return { kind: 'taken', answer: text };
      if (!passing.has(status)) return { kind: 'refused', about: { status } };
      return { kind: 'again', afterMs: retryAfterMs(answer.headers['retry-after']), about: { status } };
    } catch (error) {
      // Its message may quote the address, in which some collectors have a key.
      const error_code = codeOf(error) ?? (error instanceof Error ? error.name : 'unknown');
      return { kind: 'again', afterMs: null, about: { error_code } };
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
    }
  }

  close(): Promise<void> {
    return this.#agent.destroy();
  }
}

async function readStart(body: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const chunk of body) {
      chunks.push(chunk);
      bytes += chunk.byteLength;
      // Leaving the loop ends the connection.
      if (bytes > telemetryLimits.answerBytesMax) break;
    }
  } catch {
    // Broken off, or late.
  }
  return Buffer.concat(chunks).subarray(0, telemetryLimits.answerBytesMax);
}

/** Seconds, or a date (RFC 9110 §10.2.3); null for anything else. */
export function retryAfterMs(header: string | readonly string[] | undefined): number | null {
  const text = typeof header === 'string' ? header.trim() : '';
  const askedMs = /^\d{1,9}$/.test(text) ? Number(text) * secondMs : Date.parse(text) - Date.now();
  return askedMs >= 0 ? Math.min(askedMs, telemetryLimits.retryAfterMsMax) : null;
}
