import type { FastifyContextConfig } from 'fastify';
import type { TSchema } from 'typebox';
import type { ErrorCode } from '../../shared/errors/catalogue.ts';
import type { Tag } from './tags.ts';

/** What is published of an operation of the API besides what its schemas and its scope say. */
export interface OperationText {
  /** The name of the function in a generated client; unique. */
  readonly id: string;
  readonly tag: Tag;
  readonly summary: string;
  readonly description?: string;
  /** What can go wrong with it in particular; the rest is derived from its route (`route-errors.ts`). */
  readonly errors?: readonly ErrorCode[];
  /** A body that the route reads by itself, not by validation. */
  readonly body?: TSchema;
  /** Bodies that the service takes as they are here, but for the ids in them. */
  readonly examples?: Readonly<Record<string, Example>>;
  /** What a 200 looks like where it is not, or not only, JSON: by content type. */
  readonly contents?: Readonly<Record<string, TSchema>>;
  /** Headers of a request that count here; with `If-None-Match`, the answer can be 304. */
  readonly requestHeaders?: readonly RequestHeaderName[];
  /** Headers of a success. */
  readonly headers?: readonly HeaderName[];
}

export interface Example {
  readonly summary?: string;
  readonly value: unknown;
}

/** Headers that an answer can carry and that mean something to its reader. */
export type HeaderName =
  | 'X-Request-Id'
  | 'X-RateLimit-Limit'
  | 'X-RateLimit-Remaining'
  | 'X-RateLimit-Reset'
  | 'Retry-After'
  | 'WWW-Authenticate'
  | 'Idempotent-Replayed'
  | 'ETag'
  | 'Content-Disposition'
  | 'Set-Cookie'
  | 'Cache-Control';

/** Headers of a request that change what it does. */
export type RequestHeaderName =
  | 'Idempotency-Key'
  | 'If-Match'
  | 'Last-Event-ID'
  | 'If-None-Match'
  | 'If-None-Match: *';

declare module 'fastify' {
  /** A route without `id` is left out of the document. */
  interface FastifyContextConfig extends Partial<OperationText> {}
}

type Described = FastifyContextConfig & Omit<OperationText, 'id' | 'tag'> & { readonly tag?: Tag };

/**
 * Operations by their ids, each with what its route demands and what is published of it: the `config` of the
 * route. `tag`: of all that have none of their own.
 */
export const operationsOf = <Id extends string>(
  tag: Tag,
  described: Readonly<Record<Id, Described>>,
): Readonly<Record<Id, FastifyContextConfig & OperationText>> =>
  Object.fromEntries(
    Object.entries<Described>(described).map(([id, each]) => [id, { tag, ...each, id }]),
  ) as Record<Id, FastifyContextConfig & OperationText>;

/** Of public reads, which still ask the database. */
export const errorsOfPublicReads = [
  'invalid_request',
  'internal_error',
  'overloaded',
  'service_unavailable',
] as const;

/** Of public changes from our own pages, such as the first step of a login. */
export const errorsOfLoginSteps = [
  'invalid_request',
  'service_unavailable',
  'invalid_json',
  'body_too_large',
  'unsupported_media_type',
  'cross_site_request',
] as const;

/** Of those that begin a session. */
export const errorsOfLogins = [
  ...errorsOfLoginSteps,
  'internal_error',
  'overloaded',
  'account_suspended',
] as const;
