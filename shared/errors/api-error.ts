import { catalogue, type ErrorCode } from './catalogue.ts';

/** An error for the caller, with a code of the catalogue. The message never holds a secret, token or key. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly code: ErrorCode;
  /** The field or parameter at fault, as the caller spelled it: `constraints.spend_limits.daily_usd`. */
  readonly param: string | null;
  /** More about a value that is at fault, for programs; null: nothing. */
  readonly details: ErrorDetails | null;
  readonly #retryAfterS: number | null;

  constructor(
    code: ErrorCode,
    options: {
      readonly message?: string;
      readonly param?: string;
      readonly cause?: unknown;
      readonly retryAfterS?: number;
      readonly details?: ErrorDetails;
    } = {},
  ) {
    super(
      options.message ?? catalogue[code].message,
      options.cause === undefined ? undefined : { cause: options.cause },
    );
    this.code = code;
    this.param = options.param ?? null;
    this.details = options.details ?? null;
    this.#retryAfterS = options.retryAfterS ?? null;
  }

  get status(): number {
    return catalogue[this.code].status;
  }

  /** For the header `Retry-After`, in seconds (contract §5): 1 for every 503. Null: no header. */
  get retryAfterS(): number | null {
    return this.#retryAfterS ?? (this.status === 503 ? 1 : null);
  }
}

/** The most common error: a wrong field, with the right form in the message. */
export const invalidRequest = (param: string, message: string): ApiError =>
  new ApiError('invalid_request', { param, message });

/** Where in a text its fault is. */
export interface ErrorDetails {
  /** From 1. */
  readonly line: number;
  readonly column: number;
  readonly message: string;
}

/** The body of every error; `param` is added where it is known (contract §12). */
export interface ErrorBody {
  readonly error: {
    readonly code: ErrorCode;
    readonly message: string;
    readonly status: number;
    readonly request_id: string;
    readonly param?: string;
    readonly details?: ErrorDetails;
  };
}

export function renderError(error: ApiError, requestId: string): ErrorBody {
  const { code, message, status, param, details } = error;
  return {
    error: {
      ...{ code, message, status, request_id: requestId },
      ...(param === null ? {} : { param }),
      ...(details === null ? {} : { details }),
    },
  };
}
