import type { IncomingMessage, ServerResponse } from 'node:http';
import type { GuardVerdict } from './guard.ts';

/** Ends the response with what a guard says instead of the handler. */
export function answer(
  response: ServerResponse,
  { status, headers, body }: Extract<GuardVerdict, { kind: 'refuse' }>,
): void {
  const text = JSON.stringify(body);
  response
    .writeHead(status, {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(text),
      'cache-control': 'no-store',
      ...headers,
    })
    .end(text);
}

/** A header that was sent several times has its values after one another, as node:http joins them. */
export const headerOf =
  ({ headers }: IncomingMessage) =>
  (name: string): string | undefined => {
    const value = headers[name];
    return Array.isArray(value) ? value.join(', ') : value;
  };

/** The bytes of a body as a parser left them beside it: `rawBody` is the custom of Express and Fastify. */
export const rawBodyOf = (request: object): Uint8Array | undefined => {
  const { rawBody } = request as { readonly rawBody?: unknown };
  return rawBody instanceof Uint8Array ? rawBody : undefined;
};
