import type { ErrorBody } from './generated/api.ts';

/** Codes of the service (contract §12), and those of calls that got no answer of the service. */
export type ErrorCode = ErrorBody['error']['code'] | 'timeout' | 'connection_failed' | 'bad_answer';

interface Details {
  readonly code: ErrorCode;
  readonly status?: number | null;
  readonly requestId?: string | null;
  readonly param?: string | null;
  readonly retryAfterMs?: number | null;
  readonly cause?: unknown;
}

/**
 * Base of every error of this package. It holds nothing that was sent: no API key, no passport, no body. Its
 * HTTP status is called `http_status` because Express and Fastify answer with the `status` of any error that
 * reaches them, and this service's answer to you is not your answer to your caller.
 */
export class AgentTrustError extends Error {
  /** For programs to branch on. */
  readonly code: ErrorCode;
  /** Null: no answer. */
  readonly http_status: number | null;
  /** Names the request to the operator of the service; null: there was no answer. */
  readonly request_id: string | null;
  /** The field at fault; null: none is named. */
  readonly param: string | null;
  /** When to retry, in milliseconds; null: not stated. */
  readonly retry_after_ms: number | null;

  constructor(message: string, details: Details) {
    super(message, details.cause === undefined ? {} : { cause: details.cause });
    this.name = new.target.name;
    this.code = details.code;
    this.http_status = details.status ?? null;
    this.request_id = details.requestId ?? null;
    this.param = details.param ?? null;
    this.retry_after_ms = details.retryAfterMs ?? null;
  }
}

/** 400: the request is wrong, and a repetition changes nothing. */
export class InvalidRequestError extends AgentTrustError {}
/** 401: no API key that the service knows. */
export class AuthenticationError extends AgentTrustError {}
/** 403: the key lacks a scope, or its account is suspended. */
export class ForbiddenError extends AgentTrustError {}
/** 404: no such thing in this account and mode. */
export class NotFoundError extends AgentTrustError {}
/** 409: the state of the thing does not allow it, or an idempotency key was used for another request. */
export class ConflictError extends AgentTrustError {}
/** 412: it has changed since it was read. */
export class PreconditionFailedError extends AgentTrustError {}
/** 429: the plan limit is used up. */
export class RateLimitedError extends AgentTrustError {}
/** 5xx, and answers that are not of this service. */
export class ServiceError extends AgentTrustError {}
/**
 * There was no answer: no connection, a broken one, or none in time. Whether the call had an effect is open.
 */
export class ConnectionError extends AgentTrustError {}

const classes: Readonly<Record<number, typeof AgentTrustError>> = {
  400: InvalidRequestError,
  401: AuthenticationError,
  403: ForbiddenError,
  404: NotFoundError,
  409: ConflictError,
  412: PreconditionFailedError,
  429: RateLimitedError,
};

/** An error answer, as far as it was read. */
export interface RefusedAnswer {
  readonly status: number;
  readonly text: string;
  readonly requestId: string | null;
  readonly retryAfterMs: number | null;
}

/** The error that an answer stands for. A body that is not one of this service is `bad_answer`. */
export function errorOf(answer: RefusedAnswer): AgentTrustError {
  const { status, retryAfterMs } = answer;
  const error = errorIn(answer.text);
  if (error === null) {
    const message = `HTTP ${status} with a body that is not one of agent-trust`;
    return new ServiceError(message, {
      code: 'bad_answer',
      status,
      requestId: answer.requestId,
      retryAfterMs,
    });
  }
  const { code, message, request_id: requestId, param } = error;
  const ErrorClass = classes[status] ?? ServiceError;
  return new ErrorClass(message, { code, status, requestId, param: param ?? null, retryAfterMs });
}

function errorIn(text: string): ErrorBody['error'] | null {
  try {
    const { error } = JSON.parse(text) as ErrorBody;
    return typeof error.code === 'string' && typeof error.message === 'string' ? error : null;
  } catch {
    // No JSON, or JSON without `error`: written by a proxy, or by another program on that port.
    return null;
  }
}
