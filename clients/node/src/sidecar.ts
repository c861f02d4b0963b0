import type { CallOptions } from './call-options.ts';
import { AgentTrustError, type ErrorCode, errorOf } from './errors.ts';
import type { Block, DecisionRequest, ErrorBody, OutcomeReport, Permit, Suspend } from './generated/api.ts';
import { StreamClient } from './stream.ts';
import {
  type Call,
  deadlineOf,
  type Outcome,
  retryAfterMs,
  segment,
  Transport,
  traceHeaders,
} from './transport.ts';

export type { OutcomeReport } from './generated/api.ts';

/** Why there is no decision. */
export type UnavailableReason =
  | Extract<ErrorCode, 'timeout' | 'connection_failed' | 'bad_answer'>
  | Extract<ErrorCode, 'overloaded' | 'service_unavailable' | 'internal_error' | 'rate_limited'>;

/** The service gave no decision. It is not a PERMIT: do not serve. */
export interface Unavailable {
  readonly decision: 'UNAVAILABLE';
  readonly reason: UnavailableReason;
  /** If the answer was lost a record may exist, but its id is unknown. */
  readonly attestation_id: null;
  /** One sentence for people. */
  readonly detail: string;
  readonly retry: { readonly retryable: true; readonly after_ms: number | null };
  /** Null: there was no answer. */
  readonly request_id: string | null;
}

/**
 * What a gate answers (contract §5), or that it did not. Serve on `decision === 'PERMIT'` and nothing else.
 */
export type Decision = Permit | Suspend | Block | Unavailable;

export interface SidecarOptions {
  /** Origin of the sidecar, or of a control plane. Default `http://127.0.0.1:8090`. */
  readonly url?: string;
  /** A key with the scope `enforcement:check`, of the account whose gates the sidecar serves. */
  readonly apiKey: string;
  /** From the call to its decision, with retries, in milliseconds, 1 to a day. Default 500. */
  readonly deadlineMs?: number;
  /** `stream` asks over one WebSocket to the sidecar (contract §16). Default `http`. */
  readonly transport?: 'http' | 'stream';
}

export interface CheckInput {
  /** The agent's token. */
  readonly passport: string;
  /** The agent's request. */
  readonly request: DecisionRequest;
}

const deadlineMsDefault = 500;
/** Nobody waits for it after the answer. */
const outcomeDeadlineMs = 5_000;
/** Enough for a broken connection; for a refused one the answer takes less than 100 ms. */
const retriesMax = 2;
const pauseMs = 20;
/**
 * Without its id. A longer frame would be answered without an id, and one of twice that would close the
 * connection for all, so such checks go as requests.
 */
const frameBytesMax = 64 * 1024 - 32;

/**
 * Asks a sidecar for decisions. One instance serves a whole program; it keeps its connections open.
 *
 * Every failure on the way (no connection, a broken one, no answer in time, 5xx, an answer that is no
 * decision) is the decision `UNAVAILABLE`. Only errors that a retry cannot cure are thrown: a wrong API key
 * (`AuthenticationError`, `ForbiddenError`), an unknown gate (`NotFoundError`), a wrong request
 * (`InvalidRequestError`) and an idempotency key of another request (`ConflictError`).
 *
 * A check is retried only if that cannot charge twice: if it was never sent, after 503, or with
 * `request.idempotency_key`. One with `request.proof`, only if it was never sent. All within the deadline.
 */
export class Sidecar {
  readonly #transport: Transport;
  readonly #stream: StreamClient | null;
  readonly #deadlineMs: number;

  /** Throws TypeError for options that cannot be used. */
  constructor(options: SidecarOptions) {
    this.#transport = new Transport(options.url ?? 'http://127.0.0.1:8090', options.apiKey);
    this.#deadlineMs = deadlineOf(options.deadlineMs ?? deadlineMsDefault);
    const isStream = options.transport === 'stream';
    this.#stream = isStream
      ? new StreamClient((headers) => this.#transport.handshake('/v1/stream', headers))
      : null;
  }

  /** May this passport do this at this gate? Throws `AgentTrustError`, or the reason of an aborted signal. */
  async check(gateId: string, input: CheckInput, options: CallOptions = {}): Promise<Decision> {
    return this.#ask(`/v1/gates/${segment(gateId)}/check`, gateId, input, options);
  }

  /** The same for `request.gate_id`; without one, the passport alone is checked (contract §5). */
  async enforce(input: CheckInput, options: CallOptions = {}): Promise<Decision> {
    return this.#ask('/v1/enforce', null, input, options);
  }

  /**
   * 1 to 256 checks at one gate, decided in this order as if each came alone. The results are in the same
   * order; a faulty check gets an error in its place and does not affect the others. Without an answer each
   * is UNAVAILABLE. Throws if the whole call is refused.
   */
  async checkBatch(
    gateId: string,
    checks: readonly CheckInput[],
    options: CallOptions = {},
  ): Promise<readonly (Decision | AgentTrustError)[]> {
    const body = { checks: checks.map(({ passport, request }) => ({ passport, request })) };
    const path = `/v1/gates/${segment(gateId)}/check/batch`;
    const outcome = await this.#transport.exchange(
      this.#callOf(path, JSON.stringify(body), repeatsOf(checks), options),
    );
    const answer = answerOf(outcome);
    const results = answer.kind === 'text' ? parseResults(answer.text, checks.length) : null;
    const missing = answer.kind === 'text' ? unavailable('bad_answer', details.bad_answer) : answer.decision;
    return results ?? checks.map(() => missing);
  }

  /**
   * How the service ended that a PERMIT allowed (contract §19). Resolves when the sidecar, or the control
   * plane, has it for good. Retried within the deadline: the same outcome again is the same. Throws
   * `AgentTrustError`, also where there was no answer: report again then.
   */
  async reportOutcome(
    attestationId: string,
    outcome: OutcomeReport,
    options: CallOptions = {},
  ): Promise<void> {
    const path = `/v1/attestations/${segment(attestationId)}/outcome`;
    const reported = await this.#transport.exchange(
      this.#callOf(path, JSON.stringify(outcome), repeatsAlways, {
        deadlineMs: outcomeDeadlineMs,
        ...options,
      }),
    );
    if (reported.kind === 'failed')
      throw new AgentTrustError(details[reported.code], { code: reported.code });
    const { status, headers, text } = reported;
    if (status === 200 || status === 202) return;
    const requestId = typeof headers['x-request-id'] === 'string' ? headers['x-request-id'] : null;
    throw errorOf({ status, text, requestId, retryAfterMs: retryAfterMs(headers) });
  }

  /** Closes its connections. Calls in flight become UNAVAILABLE. */
  close(): void {
    this.#transport.close();
    this.#stream?.close();
  }

  async #ask(
    path: string,
    gateId: string | null,
    check: CheckInput,
    options: CallOptions,
  ): Promise<Decision> {
    const { passport, request } = check;
    const body = JSON.stringify({ passport, request });
    const stream = this.#stream;
    const frame = stream === null ? '' : `"gate_id":${JSON.stringify(gateId)},${body.slice(1)}`;
    const trace = stream === null ? '' : traceMembers(options);
    const isFrame = stream !== null && trace.length + Buffer.byteLength(frame) <= frameBytesMax;
    const outcome = await this.#transport.exchange(
      this.#callOf(path, body, repeatsOf([check]), options),
      isFrame ? (call) => stream.attempt(call, frame, trace) : undefined,
    );
    const answer = answerOf(outcome);
    if (answer.kind === 'none') return answer.decision;
    return (
      parseDecision(answer.text) ?? unavailable('bad_answer', details.bad_answer, null, answer.requestId)
    );
  }

  #callOf(path: string, body: string, repeats: Repeats, options: CallOptions): Call {
    const deadlineMs = options.deadlineMs === undefined ? this.#deadlineMs : deadlineOf(options.deadlineMs);
    return {
      method: 'POST',
      path,
      headers: traceHeaders(options),
      body,
      deadlineAt: performance.now() + deadlineMs,
      signal: options.signal,
      retriesMax,
      pauseMs,
      ...repeats,
    };
  }
}

/** The headers of its trace as members of a frame, in ASCII; each is followed by a comma. */
const traceMembers = (options: CallOptions): string =>
  Object.entries(traceHeaders(options))
    .map(([name, value]) => `"${name}":${JSON.stringify(value)},`)
    .join('');

/** When a call may be sent again. */
type Repeats = Pick<Call, 'isIdempotent' | 'isVoidAt503'>;

const repeatsAlways: Repeats = { isIdempotent: true, isVoidAt503: true };

function repeatsOf(checks: readonly CheckInput[]): Repeats {
  // The first copy may have used a proof up: a second would be BLOCK `proof_replayed`.
  const isProven = checks.some(({ request }) => (request['proof'] ?? null) !== null);
  const isKeyed = checks.every(({ request }) => typeof request.idempotency_key === 'string');
  return { isIdempotent: isKeyed && !isProven, isVoidAt503: !isProven };
}

/** @internal */
export const details = {
  timeout: 'The service gave no decision within the deadline.',
  connection_failed: 'The service cannot be reached, or the connection broke.',
  bad_answer: 'The answer is not one of agent-trust.',
} as const;

type ServiceAnswer =
  | { readonly kind: 'text'; readonly text: string; readonly requestId: string | null }
  | { readonly kind: 'none'; readonly decision: Unavailable };

/** The body of a success, or why there is none. Throws errors that a retry cannot cure. */
function answerOf(outcome: Outcome): ServiceAnswer {
  if (outcome.kind === 'failed') {
    return { kind: 'none', decision: unavailable(outcome.code, details[outcome.code]) };
  }
  const { status, headers, text } = outcome;
  const requestId = typeof headers['x-request-id'] === 'string' ? headers['x-request-id'] : null;
  if (status === 200) return { kind: 'text', text, requestId };
  const failure = failureFor(errorOf({ status, text, requestId, retryAfterMs: retryAfterMs(headers) }));
  if (failure instanceof AgentTrustError) throw failure;
  return { kind: 'none', decision: failure };
}

/** As a decision if a retry can cure it. */
const failureFor = (error: AgentTrustError): Unavailable | AgentTrustError =>
  isUnavailable(error)
    ? unavailable(error.code as UnavailableReason, error.message, error.retry_after_ms, error.request_id)
    : error;

/** 5xx, plan limits (of a control plane) and answers of other services; the rest are the caller's errors. */
const isUnavailable = ({ code, http_status: status }: AgentTrustError): boolean =>
  code === 'bad_answer' || code === 'rate_limited' || (status ?? 0) >= 500;

function parseDecision(text: string): Decision | null {
  return readDecision(parse(text));
}

function readDecision(value: unknown): Decision | null {
  const decision = value as Partial<Decision> | null | undefined;
  switch (decision?.decision) {
    case 'PERMIT':
    case 'BLOCK':
      return typeof decision.attestation_id === 'string' ? (decision as Permit | Block) : null;
    case 'SUSPEND':
      return typeof decision.approval_id === 'string' ? (decision as Suspend) : null;
    default:
      return null;
  }
}

/** Null unless there is one result for each check: otherwise a PERMIT could be taken for another check's. */
function parseResults(text: string, count: number): readonly (Decision | AgentTrustError)[] | null {
  const { results } = (parse(text) ?? {}) as { readonly results?: unknown };
  if (!Array.isArray(results) || results.length !== count) return null;
  return results.map((result) => readDecision(result) ?? failureFor(resultError(result)));
}

function resultError(result: unknown): AgentTrustError {
  const { error } = (result ?? {}) as Partial<ErrorBody>;
  const status = typeof error?.status === 'number' ? error.status : 200;
  return errorOf({ status, text: JSON.stringify({ error }), requestId: null, retryAfterMs: null });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Not JSON.
    return null;
  }
}

/** @internal */
export const unavailable = (
  reason: UnavailableReason,
  detail: string,
  afterMs: number | null = null,
  requestId: string | null = null,
): Unavailable => ({
  decision: 'UNAVAILABLE',
  reason,
  attestation_id: null,
  detail,
  retry: { retryable: true, after_ms: afterMs },
  request_id: requestId,
});
