import { limits } from '../../shared/model/limits.ts';
import type { HeaderName, RequestHeaderName } from '../http/operation.ts';
import type { Header, Parameter, Reference } from './document.ts';

const text = { type: 'string' };
const count = { type: 'integer', minimum: 0 };

/** Every header that an answer can carry and that means something to its reader. */
export const headers: Readonly<Record<HeaderName, Header>> = {
  'X-Request-Id': {
    description: 'Id of this request; on every answer. Quote it when you ask for help.',
    schema: { type: 'string', pattern: '^req_[0-9a-z]{26}$' },
  },
  'X-RateLimit-Limit': {
    description:
      'Requests that the plan of the account allows in the window with the fewest remaining. Absent where there is no limit.',
    schema: count,
  },
  'X-RateLimit-Remaining': {
    description: 'How many of them are left after this request.',
    schema: count,
  },
  'X-RateLimit-Reset': { description: 'When that window ends, in Unix seconds.', schema: count },
  'Retry-After': { description: 'In how many seconds the same request can succeed.', schema: count },
  'WWW-Authenticate': { description: 'How to authenticate (RFC 6750).', schema: text },
  'Idempotent-Replayed': {
    description:
      '`true` where this is the stored answer to an earlier request with the same `Idempotency-Key`.',
    schema: { type: 'string', const: 'true' },
  },
  ETag: { description: 'Version of the representation (RFC 9110 §8.8.3).', schema: text },
  'Content-Disposition': { description: 'A name for the file (RFC 6266).', schema: text },
  'Set-Cookie': {
    description: 'Sets, or removes, the cookie of the session (RFC 6265).',
    schema: text,
  },
  'Cache-Control': { description: 'How long the answer may be cached (RFC 9111).', schema: text },
};

export const headerReferences = (names: readonly HeaderName[]): Readonly<Record<string, Reference>> =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));

/** On every answer to a caller whose account has a limit. */
export const rateLimitHeaders = [
  'X-RateLimit-Limit',
  'X-RateLimit-Remaining',
  'X-RateLimit-Reset',
] as const satisfies readonly HeaderName[];

const requestHeader = (name: string, description: string, schema: Parameter['schema'] = text): Parameter => ({
  name,
  in: 'header',
  required: false,
  description,
  schema,
});

/** Headers of a request that change what it does. */
export const requestHeaders: Readonly<Record<RequestHeaderName, Parameter>> = {
  'Idempotency-Key': requestHeader(
    'Idempotency-Key',
    'A request that is sent several times with the same key creates one object: for 24 h a repeat is answered with the first ' +
      'answer, without its one-time secrets. A different request with the same key is 409 `idempotency_conflict`.',
    { type: 'string', pattern: `^[!-~]{1,${limits.idempotencyKeyCharsMax}}$` },
  ),
  'If-Match': requestHeader(
    'If-Match',
    'The `ETag` that was read: if the resource has changed since, nothing is done, and the answer is 412 `precondition_failed`.',
  ),
  'Last-Event-ID': requestHeader(
    'Last-Event-ID',
    'The `id` of the last event that was read. Events are not kept: the first one is then `reset`.',
  ),
  'If-None-Match': requestHeader(
    'If-None-Match',
    'The `ETag` of the cached version: if it is still current, the answer is 304.',
  ),
  'If-None-Match: *': requestHeader(
    'If-None-Match',
    '`*`: only where no other of the account and mode has this name (a webhook: this URL); else nothing is created, and the ' +
      'answer is 412 `precondition_failed`.',
    { type: 'string', enum: ['*'] },
  ),
};
