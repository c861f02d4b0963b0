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
