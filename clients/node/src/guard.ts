import type { CallOptions } from './call-options.ts';
import type { AgentTrustError } from './errors.ts';
import type { Block, Permit } from './generated/api.ts';
import { digestOf, type IncomingBody } from './incoming-body.ts';
import { proofOf } from './proof-of.ts';
import { holdOf } from './settle.ts';
import type { OnReportError, Settlement } from './settlement.ts';
import type { Decision, Sidecar, Unavailable } from './sidecar.ts';
import { segment } from './transport.ts';

/** Options of all guards of a program. */
export interface GuardSetup {
  /** With `reportOutcome` where a route has `settle`. */
  readonly sidecar: Pick<Sidecar, 'check'> & Partial<Pick<Sidecar, 'reportOutcome'>>;
  /** Origin of the control plane as agents reach it: a SUSPEND names the API of its approval there. */
  readonly controlPlaneUrl: string;
  /**
   * Origin of this program as agents reach it, such as `https://api.example.com`: their proofs of possession
   * are for URLs there (contract §5). Never taken from a header, which a thief would choose. Without it no
   * proof is passed on, and a gate that requires one answers `proof_missing`.
   */
  readonly origin?: string;
  /** Called with the error of an outcome that could not be reported. Default `console.error`. */
  readonly onReportError?: OnReportError;
}

/** Of a request, or in a moment. A function that throws or rejects makes the answer 400. */
type Reads<Request, Value> = (request: Request) => Value | Promise<Value>;

/** The demands of one route. Functions get the framework's request. */
export interface GuardOptions<Request, Answer = never> {
  /** `gate_…` */
  readonly gate: string;
  /** `<area>:<action>` */
  readonly permission: string | Reads<Request, string>;
  /** In USD; undefined: the request has no amount, and the gate decides what that means (contract §4). */
  readonly amount?: number | Reads<Request, number | undefined>;
  /** Host that the agent wants to reach, if the gate has `allowed_domains`. */
  readonly domain?: string | Reads<Request, string | undefined>;
  /**
   * The token of the agent; undefined: it showed none. Default: `Authorization: Passport <token>` or
   * `X-Agent-Passport`.
   */
  readonly passportFrom?: Reads<Request, string | undefined>;
  /**
   * Charges copies of a request once (contract §5). All copies reach your handler: set a key only if the
   * handler deduplicates too. Default: none, each request is charged.
   */
  readonly idempotencyKey?: Reads<Request, string | undefined>;
  /**
   * Further members of the request, which the gate scans for personal data and which an approval is bound to.
   * Method, path with query, Content-Type, and the SHA-256 of a parsed body are always included.
   */
  readonly context?: Reads<Request, Readonly<Record<string, unknown>>>;
  /**
   * What is asked, for the person who approves it (contract §8): at most 2 KiB of JSON. An approval is bound
   * to it. Default: none.
   */
  readonly display?: Reads<Request, ApprovalDisplay | undefined>;
  /**
   * The whole body for your handler, as bytes, text or a JSON value, if the framework has not parsed it.
   * Default: the parsed body. A request with a body in neither place is not approved.
   */
  readonly body?: Reads<Request, unknown>;
  /**
   * Has the amount held, and reports how the request ended: `served`, or `failed` for an error or a 5xx,
   * which gives all of it back (contract §19). Default: the amount is spent with the PERMIT.
   */
  readonly settle?: true | Settlement<Request, Answer>;
  /**
   * Serves requests while the sidecar gives no decision, without limits, charges and records, even for
   * revoked passports. Default false: 503.
   */
  readonly dangerouslyServeWithoutDecision?: boolean;
}

/** What an approver sees; plain texts, and an absolute http or https address. */
export interface ApprovalDisplay {
  readonly title: string;
  readonly lines: readonly { readonly label: string; readonly value: string }[];
  readonly url?: string;
}

/** The decision for the handler. UNAVAILABLE only with that option. */
export type PassedDecision = Permit | Unavailable;

/** A request, independent of the framework. */
export interface Incoming {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  /** By its name in lower case. */
  readonly header: (name: string) => string | undefined;
  readonly body: IncomingBody;
  /** The body as it was sent, where that is kept beside the parsed one. */
  readonly rawBody?: Uint8Array | undefined;
  /** The HTTP request, where what is asked about is only a part of it. `body`: default unknown. */
  readonly carrier?:
    | { readonly method: string; readonly path: string; readonly body?: IncomingBody }
    | undefined;
}

/** The outcome of a guard. */
export type GuardVerdict = { readonly kind: 'pass'; readonly decision: PassedDecision } | Refusal;

/** The answer to the agent instead of the handler's. */
export interface Refusal {
  readonly kind: 'refuse';
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Readonly<Record<string, unknown>>;
}

/**
 * The service refused the check itself, for example because of the API key or an unknown gate: a fault of
 * this program, not of the agent. `cause` is the `AgentTrustError`. Frameworks answer 500.
 */
export class GuardError extends Error {
  override readonly name = 'GuardError';
}

/** Approves a request that was suspended before: the approval's id, sent with the same request again. */
const approvalHeader = 'x-agent-approval';

/** Checks the request. Passes it on only on a PERMIT, or with the option for UNAVAILABLE. */
export async function decide<Request, Answer>(
  setup: GuardSetup,
  options: GuardOptions<Request, Answer>,
  request: Request,
  incoming: Incoming,
): Promise<GuardVerdict> {
  try {
    const passports = await passportsOf(options, request, incoming);
    const [passport] = passports;
    if (passport === undefined) return unauthorized('passport_missing', 'Show a passport.');
    if (passports.length > 1) return unauthorized('passport_ambiguous', 'Show one passport, not two.');
    const given = await readOption('body', options.body, request);
    const body = bodyAskedFor(given, incoming);
    const approvalId = incoming.header(approvalHeader);
    if (body === 'unbound' && approvalId !== undefined) return unbindable;
    const asked = { ...(await questionOf(options, request)), approval_id: approvalId ?? null };
    const proof = proofOf(seenBy(incoming, given), setup.origin);
    const { context, ...fields } = asked;
    const { method, path } = incoming;
    // Without the digest it would equal a request without a body, which may be approved.
    const question = {
      ...context,
      method,
      path,
      ...overridesOf(incoming),
      ...(body === 'unbound' ? { body_unbound: true } : body),
      ...fields,
      ...(proof !== undefined && { proof }),
      ...holdOf(options),
    };
    const trace = traceOf(incoming);
    return await ask(setup, options, { passport, question, isBound: body !== 'unbound', trace });
  } catch (error) {
    if (error instanceof UnreadableOption) return invalid(error.option, error.message);
    throw error;
  }
}

/** The request that a proof is about, with the bytes of the body where they are known. */
function seenBy(incoming: Incoming, given: unknown): Incoming {
  const { carrier } = incoming;
  if (carrier !== undefined) return { ...incoming, body: { kind: 'unread' }, ...carrier };
  const value = incoming.rawBody ?? given;
  return value === undefined ? incoming : { ...incoming, body: { kind: 'read', value } };
}

interface Question {
  readonly passport: string;
  readonly question: Readonly<Record<string, unknown>>;
  /** Whether an approval would cover the handler's input. */
  readonly isBound: boolean;
  /** The check belongs to the trace of the request. */
  readonly trace: readonly [CallOptions?];
}

function traceOf({ header }: Incoming): Question['trace'] {
  const traceparent = header('traceparent');
  if (traceparent === undefined) return [];
  const tracestate = header('tracestate');
  return [{ traceparent, ...(tracestate !== undefined && { tracestate }) }];
}

async function ask(
  setup: GuardSetup,
  options: GuardOptions<never, never>,
  { passport, question, isBound, trace }: Question,
): Promise<GuardVerdict> {
  try {
    const decision = await setup.sidecar.check(options.gate, { passport, request: question }, ...trace);
    return decision.decision === 'SUSPEND' && !isBound ? unbindable : verdictOn(decision, setup, options);
  } catch (error) {
    if (isRefusal(error)) return refusalFor(error, options);
    if (!isSendable(question)) return invalid('request', 'The request holds what JSON cannot show.');
    throw error;
  }
}

/** For example a part of a body, taken by `context`, with too deep nesting. */
function isSendable(question: object): boolean {
  try {
    JSON.stringify(question);
    return true;
  } catch {
    return false;
  }
}

/** Some programs take the method from these: an approved POST must not run as a DELETE. */
const methodHeaders = ['x-http-method-override', 'x-http-method', 'x-method-override'];

function overridesOf({ header }: Incoming): Readonly<Record<string, string>> {
  const shown = methodHeaders.flatMap((name) => header(name) ?? []);
  return shown.length === 0 ? {} : { method_override: shown.join(', ') };
}

type AskedBody = Readonly<Record<string, string>> | 'unbound';

/** The members that represent the body; none without a body. */
function bodyAskedFor(given: unknown, { body, header }: Incoming): AskedBody {
  const value = given ?? (body.kind === 'read' ? body.value : undefined);
  if (value === undefined) return body.kind === 'unread' ? 'unbound' : {};
  const digest = digestOf(value);
  return digest === null ? 'unbound' : { body_sha256: digest, ...typeAskedFor(header) };
}

/**
 * The type, boundary and encoding change the meaning of the bytes. JSON in UTF-8 is the default and omitted.
 */
function typeAskedFor(header: Incoming['header']): Readonly<Record<string, string>> {
  const [type, encoding] = [header('content-type') ?? '', header('content-encoding')];
  return {
    ...(/^application\/json(?:; ?charset=utf-8)?$/i.test(type) ? {} : { content_type: type }),
    ...(encoding === undefined ? {} : { content_encoding: encoding }),
  };
}

/** Evaluates the functions of a guard for a request. Throws UnreadableOption. */
async function questionOf<Request>(options: GuardOptions<Request>, request: Request) {
  const context = await readOption('context', options.context, request);
  const permission = await readOption('permission_key', options.permission, request);
  const amount = await readOption('amount', options.amount, request);
  const domain = await readOption('domain', options.domain, request);
  const idempotencyKey = await readOption('idempotency_key', options.idempotencyKey, request);
  const display = await readOption('display', options.display, request);
  if (typeof (context ?? {}) !== 'object' || Array.isArray(context)) throw new UnreadableOption('context');
  // NaN would be sent as null, which means no amount and could bypass a limit.
  if (amount !== undefined && !Number.isFinite(amount)) {
    throw new UnreadableOption('amount', 'The amount is not a number.');
  }
  return {
    context,
    permission_key: textOf('permission_key', permission),
    amount: amount ?? null,
    domain: textOf('domain', domain),
    idempotency_key: textOf('idempotency_key', idempotencyKey),
    // Absent, not null: it is part of what an approval is bound to.
    ...(display !== undefined && { display }),
  };
}

function textOf(name: string, value: unknown): string | null {
  if (value === undefined || value === null) return null;
  if (typeof value === 'string') return value;
  throw new UnreadableOption(name);
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
      const { approval_id, approval_url, expires_at, reason } = decision;
      const origin = setup.controlPlaneUrl.replace(/\/+$/, '');
      const approval_api_url = `${origin}/v1/approvals/${segment(approval_id)}`;
      const detail = `A person has to approve this. After that, send the same request with ${approvalHeader}.`;
      const waiting = { approval_id, approval_url, approval_api_url, expires_at };
      const body = { decision: 'SUSPEND', reason, detail, ...waiting };
      return { kind: 'refuse', status: 202, headers: { location: approval_api_url }, body };
    }
    case 'BLOCK': {
      const { constraints_evaluated: _, ...told } = decision;
      const body = { ...told, detail: told.detail + proofHint(decision, setup) };
      if (isOurs(decision)) return refuse(503, body, decision.retry.after_ms ?? 1_000);
      const isPassport = decision.reason.startsWith('passport_');
      const { headers, ...rest } = refuse(isPassport ? 401 : 403, body, decision.retry.after_ms);
      return { ...rest, headers: isPassport ? { ...headers, ...challenge } : headers };
    }
  }
}

/** For which URLs the missing proof is to be made; or that none would be looked at. */
function proofHint({ reason }: Block, { origin }: GuardSetup): string {
  if (reason !== 'proof_missing') return '';
  return origin === undefined
    ? ' No proof is passed on here, because the guard has no origin.'
    : ` Make it for URLs at the origin ${origin}.`;
}

/** A failure of the service that the agent cannot fix (contract §15). */
const isOurs = ({ reason }: Block): boolean => reason === 'quota_unavailable' || reason === 'state_stale';

/** Not by its class: `agent-trust/embedded` throws errors of another copy of this package. */
const isRefusal = (error: unknown): error is AgentTrustError =>
  error instanceof Error && 'http_status' in error;

/** Faults in the agent's input are the agent's; all other refusals are faults of this program. */
function refusalFor(error: AgentTrustError, { permission }: GuardOptions<never>): GuardVerdict {
  const { code, http_status: status, param, message } = error;
  const isRead = typeof permission === 'function';
  const isOfAgent =
    code === 'idempotency_conflict' ||
    code === 'body_too_large' ||
    (code === 'invalid_request' && param !== null && (isRead || !param.includes('permission')));
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
): Refusal => ({
  kind: 'refuse',
  status,
  headers: afterMs === null ? {} : { 'retry-after': String(Math.ceil(afterMs / 1_000)) },
  body,
});

const invalid = (param: string, message: string) =>
  refuse(400, { error: { code: 'invalid_request', message, param } });

const unbindable = refuse(415, {
  error: {
    code: 'unsupported_media_type',
    message: 'This needs an approval, which holds for one body, and no body of this type is read here.',
    param: 'body',
  },
});

/** The distinct tokens of the request. */
async function passportsOf<Request>(
  { passportFrom }: GuardOptions<Request>,
  request: Request,
  { header }: Incoming,
): Promise<readonly string[]> {
  if (passportFrom === undefined) return passportsIn(header);
  const shown = textOf('passport', await readOption('passport', passportFrom, request));
  return shown ? [shown] : [];
}

/** Different tokens in headers: the two places where agents show their passport (contract §15). */
export function passportsIn(header: Incoming['header']): readonly string[] {
  const credentials = /^passport +(\S+) *$/i.exec(header('authorization') ?? '')?.[1];
  const shown = [credentials, header('x-agent-passport')];
  return [...new Set(shown.filter((token): token is string => token !== undefined && token !== ''))];
}

/** A function of the route did not find in the request what it reads. */
class UnreadableOption extends Error {
  /** As the body of a check names it. */
  readonly option: string;
  constructor(option: string, message = `The request lacks what its ${option} is read from.`) {
    super(message);
    this.option = option;
  }
}

async function readOption<Request, Value>(
  option: string,
  value: Value | Reads<Request, Value | undefined> | undefined,
  request: Request,
): Promise<Value | undefined> {
  if (typeof value !== 'function') return value;
  try {
    return await (value as Reads<Request, Value | undefined>)(request);
  } catch {
    // Its message may quote the request.
    throw new UnreadableOption(option);
  }
}
