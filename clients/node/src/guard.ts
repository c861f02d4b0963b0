import { createHash } from 'node:crypto';
import type { AgentTrustError } from './errors.ts';
import type { Permit } from './generated/api.ts';
import type { Decision, Sidecar, Unavailable } from './sidecar.ts';
import { segment } from './transport.ts';

/** What all guards of a program share. */
export interface GuardSetup {
  readonly sidecar: Pick<Sidecar, 'check'>;
  /** Origin of the control plane as agents reach it: a SUSPEND leads them to their approval there. */
  readonly controlPlaneUrl: string;
}

/** What one route demands. A function is called with the request of the framework. */
export interface GuardOptions<Request> {
  /** `gate_…` */
  readonly gate: string;
  /** `<area>:<action>` */
  readonly permission: string | ((request: Request) => string);
  /** In USD; undefined: the request has no amount, and the gate decides what that means (contract §4). */
  readonly amount?: number | ((request: Request) => number | undefined);
  /** Host that the agent wants to reach, where the gate has `allowed_domains`. */
  readonly domain?: string | ((request: Request) => string | undefined);
  /**
   * The token of the agent; undefined: it showed none. Default: `Authorization: Passport <token>` or
   * `X-Agent-Passport`.
   */
  readonly passportFrom?: (request: Request) => string | undefined;
  /**
   * Makes one charge of any number of copies (contract §5). All of them reach your handler: name a key only
   * where it serves a copy once, too. Default: none, each request is charged.
   */
  readonly idempotencyKey?: (request: Request) => string | undefined;
  /**
   * More about the request, which the gate searches for personal data, and which an approval is bound to.
   * Method, path with query, and the SHA-256 of a parsed body are always a part of it.
   */
  readonly context?: (request: Request) => Readonly<Record<string, unknown>>;
  /**
   * Serves requests while the sidecar gives no decision: nothing is limited, charged or recorded then, and
   * revoked passports pass. Default false: they get 503.
   */
  readonly dangerouslyServeWithoutDecision?: boolean;
}

/** The decision with which a request reaches its handler. UNAVAILABLE only where that was asked for. */
export type PassedDecision = Permit | Unavailable;

/** A request as every framework has it. */
export interface Incoming {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  /** By its name in lower case. */
  readonly header: (name: string) => string | undefined;
  /** As the framework has parsed it; undefined: there is none, or it has not been read. */
  readonly body: unknown;
}

/** What becomes of a request. */
export type GuardVerdict =
  | { readonly kind: 'pass'; readonly decision: PassedDecision }
  | {
      readonly kind: 'refuse';
      readonly status: number;
      readonly headers: Readonly<Record<string, string>>;
      readonly body: Readonly<Record<string, unknown>>;
    };

/**
 * The service refused the question itself, for example because of the API key or an unknown gate: a fault of
 * this program and not of the agent. `cause` is the `AgentTrustError`. Frameworks answer 500.
 */
export class GuardError extends Error {
  override readonly name = 'GuardError';
}

/** Approves a request that was suspended before: the approval's id, sent with the same request again. */
const approvalHeader = 'x-agent-approval';

/** Asks for the request. Never passes it on but on a PERMIT, or where that was asked for by name. */
export async function decide<Request>(
  setup: GuardSetup,
  options: GuardOptions<Request>,
  request: Request,
  incoming: Incoming,
): Promise<GuardVerdict> {
  const passports = passportsOf(options, request, incoming);
  const [passport] = passports;
  if (passport === undefined) return unauthorized('passport_missing', 'Show a passport.');
  if (passports.length > 1) return unauthorized('passport_ambiguous', 'Show one passport, not two.');
  const amount = valueFor(options.amount, request);
  if (amount !== undefined && !Number.isFinite(amount)) {
    // NaN would be sent as null, which is no amount at all, and could pass below a limit.
    return refuse(400, {
      error: { code: 'invalid_request', message: 'The amount is not a number.', param: 'amount' },
    });
  }
  try {
    const decision = await setup.sidecar.check(options.gate, {
      passport,
      request: {
        ...options.context?.(request),
        method: incoming.method,
        path: incoming.path,
        ...(incoming.body === undefined ? {} : { body_sha256: digestOf(incoming.body) }),
        permission_key: valueFor(options.permission, request) ?? null,
        amount: amount ?? null,
        domain: valueFor(options.domain, request) ?? null,
        idempotency_key: options.idempotencyKey?.(request) ?? null,
        approval_id: incoming.header(approvalHeader) ?? null,
      },
    });
    return verdictOn(decision, setup, options);
  } catch (error) {
    if (isRefusal(error)) return refusalFor(error);
    throw error;
  }
}

function verdictOn(
  decision: Decision,
  setup: GuardSetup,
  { dangerouslyServeWithoutDecision: serves = false }: GuardOptions<never>,
): GuardVerdict {
  switch (decision.decision) {
    case 'PERMIT':
      return { kind: 'pass', decision };
    case 'UNAVAILABLE': {
      if (serves) return { kind: 'pass', decision };
      const { reason, detail, retry } = decision;
      return refuse(503, { decision: 'UNAVAILABLE', reason, detail, retry }, retry.after_ms ?? 1_000);
    }
    case 'SUSPEND': {
      const { approval_id, expires_at, reason } = decision;
      const address = `${setup.controlPlaneUrl.replace(/\/+$/, '')}/v1/approvals/${segment(approval_id)}`;
      const detail = `A person has to approve this. After that, send the same request with ${approvalHeader}.`;
      const body = { decision: 'SUSPEND', reason, detail, approval_id, approval_url: address, expires_at };
      return { kind: 'refuse', status: 202, headers: { location: address }, body };
    }
    case 'BLOCK': {
      const { constraints_evaluated: _, ...body } = decision;
      const isPassport = decision.reason.startsWith('passport_');
      const { headers, ...rest } = refuse(isPassport ? 401 : 403, body, decision.retry.after_ms);
      return { ...rest, headers: isPassport ? { ...headers, ...challenge } : headers };
    }
  }
}

/** Not by its class: `agent-trust/embedded` throws errors of another copy of this package. */
const isRefusal = (error: unknown): error is AgentTrustError =>
  error instanceof Error && 'http_status' in error;

/** What the agent sent is its own fault; everything else that is refused is one of this program. */
function refusalFor(error: AgentTrustError): GuardVerdict {
  const { code, http_status: status, param, message } = error;
  const isOfAgent =
    code === 'idempotency_conflict' ||
    code === 'body_too_large' ||
    (code === 'invalid_request' && param !== null && !param.includes('permission'));
  if (!isOfAgent) throw new GuardError(`agent-trust refuses this guard: ${message}`, { cause: error });
  return refuse(status ?? 400, { error: { code, message, param } });
}

const challenge = { 'www-authenticate': 'Passport' };

const unauthorized = (reason: string, detail: string): GuardVerdict => ({
  kind: 'refuse',
  status: 401,
  headers: challenge,
  body: { decision: 'BLOCK', reason, detail },
});

const refuse = (
  status: number,
  body: Readonly<Record<string, unknown>>,
  afterMs: number | null = null,
): Extract<GuardVerdict, { kind: 'refuse' }> => ({
  kind: 'refuse',
  status,
  headers: afterMs === null ? {} : { 'retry-after': String(Math.ceil(afterMs / 1_000)) },
  body,
});

/** Different tokens that the request shows. */
function passportsOf<Request>(
  { passportFrom }: GuardOptions<Request>,
  request: Request,
  { header }: Incoming,
): readonly string[] {
  const shown =
    passportFrom === undefined
      ? [/^passport +(\S+) *$/i.exec(header('authorization') ?? '')?.[1], header('x-agent-passport')]
      : [passportFrom(request)];
  return [...new Set(shown.filter((token) => token !== undefined && token !== ''))] as string[];
}

function valueFor<Request, Value>(
  value: Value | ((request: Request) => Value | undefined) | undefined,
  request: Request,
): Value | undefined {
  return typeof value === 'function' ? (value as (request: Request) => Value | undefined)(request) : value;
}

/** Of bytes and text as they are, of anything else as JSON in the order in which it was sent. */
function digestOf(body: unknown): string {
  const bytes = typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body);
  return createHash('sha256').update(bytes).digest('hex');
}
