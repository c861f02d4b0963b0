import { isJsonObject, type JsonObject } from '../../shared/crypto/json-object.ts';
import { limits } from '../../shared/model/limits.ts';
import { visible } from '../../shared/model/plain-text.ts';
import { type ExitCode, exitCode } from '../../shared/runtime/exit-codes.ts';

/** The service as a command reaches it. */
export interface ApiAccess {
  /** Of the control plane, without `/v1`. */
  readonly origin: string;
  /** A secret: never shown. */
  readonly key: string;
}

export interface ApiReply {
  readonly body: JsonObject;
  /** Whether a plan limits the calls of this account. */
  readonly isLimited: boolean;
}

/** A command cannot continue; the message is for its user, and may quote what others wrote. */
export class CommandError extends Error {
  override readonly name: string = 'CommandError';
  readonly exitCode: ExitCode = exitCode.failure;
  /** In how many seconds the same call may succeed; null: unknown. */
  readonly retryAfterS: number | null;

  constructor(message: string, retryAfterS: number | null = null) {
    super(visible(message));
    this.retryAfterS = retryAfterS;
  }
}

/** Wrong usage: the same command will fail again. */
export class UsageError extends CommandError {
  override readonly name = 'UsageError';
  override readonly exitCode = exitCode.usage;
}

/** Calls an endpoint under `/v1`. Throws CommandError for an error answer and for no answer. */
export async function callApi(
  { origin, key }: ApiAccess,
  method: string,
  path: string,
  body?: JsonObject,
  timeoutMs: number = limits.internalCallMsMax,
): Promise<ApiReply> {
  const response = await fetch(`${origin}/v1${path}`, {
    method,
    headers: {
      authorization: `Bearer ${key}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    redirect: 'error',
    signal: AbortSignal.timeout(timeoutMs),
  }).catch((error: unknown) => {
    throw new CommandError(`${origin} cannot be reached: ${reasonOf(error)}`);
  });
  const answer: unknown = await response.json().catch(() => null);
  if (response.ok && isJsonObject(answer)) {
    return { body: answer, isLimited: response.headers.has('x-ratelimit-limit') };
  }
  const retryAfter = Number(response.headers.get('retry-after') ?? Number.NaN);
  throw new CommandError(
    `${method} ${path}: ${response.status} ${sentenceOf(answer)}`,
    Number.isFinite(retryAfter) ? retryAfter : null,
  );
}

/** The message of the specified error body; other bodies are not shown. */
function sentenceOf(answer: unknown): string {
  const error = isJsonObject(answer) ? answer['error'] : null;
  if (!isJsonObject(error)) return 'and a body that is not from this service. Is --api the control plane?';
  return `${String(error['code'])}: ${String(error['message'])}`;
}

/** The message `fetch failed` explains nothing; its cause does. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { cause } = error;
  if (cause instanceof Error) return 'code' in cause ? String(cause.code) : cause.message;
  return error.message;
}
