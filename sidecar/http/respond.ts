import { STATUS_CODES } from 'node:http';
import { assert } from '../../shared/errors/assert.ts';
import type { Reply } from './server.ts';

/** What happens to the connection after an answer. */
export type After = 'keep' | 'close';

/**
 * Throws InvariantError for an answer that would break the stream. A line break in a header would let its
 * author write headers, or a whole second answer, of his own; uWebSockets.js sends it as it is.
 */
export function assertReply(reply: Reply): void {
  const { status, contentType, headers } = reply;
  assert(status >= 200 && status <= 599 && status !== 204 && status !== 304, 'a status that may have a body');
  if (contentType !== undefined) assert(isHeaderText(contentType), 'a content type is printable ASCII');
  if (headers === undefined) return;
  for (const [name, value] of headers) {
    assert(isHeaderName(name), 'a header name is a lower-case token');
    assert(isHeaderText(value), 'a header value is printable ASCII');
  }
}

/** The header of `Reply.requestId`. */
export const requestIdHeader = 'x-request-id';

/** `404 Not Found`. */
export const statusLine = (status: number): string => `${status} ${STATUS_CODES[status] ?? 'Unknown'}`;

/** null: no body, no type. */
export const contentTypeOf = (reply: Reply): string | null =>
  reply.body === '' ? null : (reply.contentType ?? 'application/json; charset=utf-8');

const isHeaderName = (text: string): boolean => /^[a-z0-9-]+$/.test(text);
const isHeaderText = (text: string): boolean => /^[\x20-\x7e]*$/.test(text);
