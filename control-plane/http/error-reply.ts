import type { Duplex } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { Counter } from 'prom-client';
import { ApiError, type ErrorBody, renderError } from '../../shared/errors/api-error.ts';
import { InvariantError } from '../../shared/errors/assert.ts';
import { catalogue, type ErrorCode } from '../../shared/errors/catalogue.ts';
import { secondMs } from '../../shared/model/time.ts';
import type { BaseDeps } from '../base/deps.ts';
import { databaseFailure } from '../storage/database-away.ts';
import { LineBudget } from './line-budget.ts';
import { requestIdMaker } from './request-id.ts';

declare module 'fastify' {
  interface FastifyInstance {
    renderFailure: ErrorReplies['render'];
  }
}

/** Fastify's three hooks for error answers, and the one of node:http before Fastify. */
export interface ErrorReplies {
  readonly reply: (error: unknown, request: FastifyRequest, reply: FastifyReply) => void;
  /** For a part of an answer: the error's body, logged and counted if internal. */
  readonly render: (error: unknown, request: FastifyRequest) => ErrorBody;
  readonly replyToBrokenHttp: (socket: Duplex) => void;
}

/**
 * Answers every error with the specified body and a code of the catalogue (contract §12). Internal errors are
 * logged with the request's id and counted; their messages are never sent.
 */
export function errorReplies(deps: Pick<BaseDeps, 'logger' | 'metrics' | 'random' | 'clock'>): ErrorReplies {
  const failures = new Counter({
    name: 'agent_trust_internal_errors_total',
    help: 'Requests that failed with an internal error. kind=invariant is always a bug.',
    labelNames: ['kind'],
    registers: [deps.metrics],
  });
  const newRequestId = requestIdMaker(deps);
  const lines = new LineBudget<ErrorCode>(deps.clock, {
    linesMax: 10,
    perMs: secondMs,
    keysMax: Object.keys(catalogue).length,
  });

  const report = (error: unknown, answered: ApiError, request: FastifyRequest): void => {
    if (answered.code === 'internal_error')
      failures.inc({ kind: error instanceof InvariantError ? 'invariant' : 'other' });
    const leftOut = lines.take(answered.code);
    if (leftOut === null) return;
    const where = {
      ...(leftOut === 0 ? {} : { not_logged_before: leftOut }),
      request_id: request.id,
      method: request.method,
      route: request.routeOptions.url ?? null,
      failure: describeFailure(error),
    };
    if (answered.code === 'internal_error') deps.logger.error(where, 'a request failed');
    else deps.logger.warn(where, 'a request could not be served');
  };

  const answerTo = (error: unknown, request: FastifyRequest): ApiError => {
    const answered = toApiError(error);
    if (answered.status >= 500) report(error, answered, request);
    return answered;
  };

  return {
    render: (error, request) => renderError(answerTo(error, request), request.id),
    reply: (error, request, reply) => {
      const answered = answerTo(error, request);
      reply.code(answered.status).header('x-request-id', request.id).header('cache-control', 'no-store');
      // A route with another credential than an API key has set the header itself.
      if (answered.retryAfterS !== null) reply.header('retry-after', answered.retryAfterS);
      if (answered.code === 'unauthorized' && !reply.hasHeader('www-authenticate')) {
        reply.header('www-authenticate', 'Bearer realm="agent-trust"');
      }
      // Fastify closes the connection after a refused body, because more of it might follow. After a complete
      // body it need not.
      if (request.raw.complete) reply.removeHeader('connection');
      reply.type('application/json; charset=utf-8').send(renderError(answered, request.id));
    },
    replyToBrokenHttp: (socket) => {
      if (!socket.writable) socket.destroy();
      else socket.end(renderBrokenHttp(newRequestId()), () => socket.destroy());
    },
  };
}

export function installErrorReplies(app: FastifyInstance, replies: ErrorReplies): void {
  app.setErrorHandler(replies.reply);
  app.decorate('renderFailure', replies.render);
  app.setNotFoundHandler((request, reply) => replies.reply(new ApiError('route_not_found'), request, reply));
  // For expectations other than 100-continue, node:http would answer 417 without a body.
  app.server.on('checkExpectation', (request, response) => app.routing(request, response));
  // For CONNECT, node:http would close the connection without an answer.
  app.server.on('connect', (_request, socket) => replies.replyToBrokenHttp(socket));
}

/** Our messages for the framework's own refusals, because its messages echo input. */
const frameworkRefusals: Readonly<Record<string, string>> = {
  FST_ERR_BAD_URL: 'The path contains an invalid percent-encoding.',
  FST_ERR_MAX_PARAM_LENGTH: 'A segment of the path is too long.',
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'The body must be JSON: send "Content-Type: application/json".',
};

/** The public error for anything thrown; unexpected errors become `internal_error`. */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  const away = databaseFailure(error);
  if (away !== null) return new ApiError(away, { cause: error });
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  const message = frameworkRefusals[code];
  if (message !== undefined) return new ApiError('invalid_request', { message, cause: error });
  if (code.startsWith('FST_') && isRefusal(error)) return new ApiError('invalid_request', { cause: error });
  return new ApiError('internal_error', { cause: error });
}

const isRefusal = (error: unknown): boolean =>
  error instanceof Error &&
  'statusCode' in error &&
  typeof error.statusCode === 'number' &&
  error.statusCode >= 400 &&
  error.statusCode < 500;

/** Name, code and stack. Excludes the detail and parameters of database errors, which contain rows. */
const describeFailure = (error: unknown): object =>
  error instanceof Error
    ? {
        name: error.name,
        code: 'code' in error ? error.code : null,
        stack: error.stack ?? error.message,
        ...(error.cause === undefined ? {} : { cause: describeFailure(error.cause) }),
      }
    : { name: typeof error };

function renderBrokenHttp(requestId: string): string {
  const error = new ApiError('invalid_request', { message: 'This is not a valid HTTP request.' });
  const body = JSON.stringify(renderError(error, requestId));
  return [
    'HTTP/1.1 400 Bad Request',
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${requestId}`,
    'cache-control: no-store',
    'connection: close',
    '',
    body,
  ].join('\r\n');
}
