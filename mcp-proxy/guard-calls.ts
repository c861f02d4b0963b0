import { LRUCache } from 'lru-cache';
import {
  decide,
  GuardError,
  type GuardOptions,
  type GuardSetup,
  type GuardVerdict,
  type Incoming,
  passportsIn,
} from '../clients/node/src/guard.ts';
import { canonicalJson } from '../shared/crypto/canonical-json.ts';
import { sha256Hex } from '../shared/crypto/content-hash.ts';
import { isJsonObject, type JsonObject } from '../shared/crypto/json-object.ts';
import { isRequestablePermission, type PermissionKey } from '../shared/model/permission.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import { type Amounts, amountOf, toolKey } from './amounts.ts';
import { displayAs, displayOf, type Pointer } from './display.ts';
import { type GuardedMethod, subjectOf } from './guarded-methods.ts';
import type { HeldCall } from './held-calls.ts';
import { proxyLimits } from './limits.ts';
import type { Settlements } from './settlements.ts';

/** As `guardTools` of the client for Node.js has them (contract §16, docs/integrations/mcp.md). */
const passportMeta = 'agent-trust/passport';
const approvalMeta = 'agent-trust/approval_id';
const idempotencyMeta = 'agent-trust/idempotency_key';
const decisionMeta = 'agent-trust/decision';

/** The headers of a client's message, by lower-case name. */
export type Shown = (name: string) => string | undefined;

export interface CallGuardOptions extends GuardSetup {
  readonly gate: string;
  readonly amounts: Amounts;
  /** What calls of tools come to, where that is known after their answers. */
  readonly settlements: Settlements;
  /** Arguments that approvers do not see. */
  readonly hidden: readonly Pointer[];
  /** A copy under a key is charged once, and reaches the server each time. */
  readonly takesIdempotencyKeys: boolean;
  readonly servesWithoutDecision: boolean;
  readonly logger: Logger;
}

/** The verdict on a request: null if it may pass, else the answer to it, without its envelope. */
export type CallGuard = (asked: Asked, shown: Shown) => Promise<GuardAnswer | null>;

export interface GuardAnswer {
  readonly answer: RequestAnswer;
  /** Why the token is no valid passport; null: it is one. */
  readonly invalidToken: string | null;
}

/** A request that is decided. */
export interface Asked {
  readonly method: string;
  readonly params: JsonObject;
  /** Null: a call of a tool. */
  readonly as: GuardedMethod | null;
  /** Told the call that passes, if its amount is held. */
  readonly onHeld?: (call: HeldCall) => void;
  /** The HTTP request of the client that it came in, which proofs of possession are about. */
  readonly carrier?: Incoming['carrier'];
}

export type RequestAnswer = { readonly result: JsonObject } | { readonly error: JsonObject };

/** Null if the name is no possible permission (contract §3): such a tool can never be granted. */
export function permissionOf(tool: string): PermissionKey | null {
  const permission = `tools:${toolKey(tool)}`;
  return isRequestablePermission(permission) ? permission : null;
}

/** Token, approval and trace in `_meta` of the message, else in the headers as guards read them. */
export const withMeta =
  (params: unknown, shown: Shown): Shown =>
  (name) => {
    const key = {
      'x-agent-passport': passportMeta,
      'x-agent-approval': approvalMeta,
      traceparent: 'traceparent',
      tracestate: 'tracestate',
    }[name];
    const meta = metaOf(params);
    const value = key === undefined ? undefined : meta[key];
    if (typeof value === 'string') return value;
    // Both are of one trace, and come from one place.
    const isOfOther = name === 'tracestate' && typeof meta['traceparent'] === 'string';
    return isOfOther ? undefined : shown(name);
  };

const metaOf = (params: unknown): JsonObject => {
  const meta = isJsonObject(params) ? params['_meta'] : null;
  return isJsonObject(meta) ? meta : {};
};

/**
 * The same message without the passport, which is a bearer credential: no member has its name, wherever it
 * is, and no text holds this token. The message itself if it had none.
 */
export function withoutPassport(message: JsonObject, token: string): JsonObject {
  const named = JSON.stringify(message, (name, value) => (name === passportMeta ? undefined : value));
  const bare = textWithoutToken(named, token);
  return bare === JSON.stringify(message) ? message : JSON.parse(bare);
}

/** Nothing else is like a token of three parts in base64url. */
export const textWithoutToken = (text: string, token: string): string =>
  /^[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}$/.test(token) ? text.replaceAll(token, '') : text;

/**
 * Decides calls of tools. Remembers suspended calls with their approvals, so that a client without support
 * for approvals only repeats the same call after a person has approved it.
 */
export function callGuard(options: CallGuardOptions): CallGuard {
  const { logger } = options;
  const approvals = new LRUCache<string, string>({ max: proxyLimits.rememberedApprovalsMax });
  return async (asked, shown) => {
    const { params } = asked;
    const shownWithMeta = withMeta(params, shown);
    const key = keyOf(asked, shownWithMeta);
    const remembered = shownWithMeta('x-agent-approval') === undefined ? approvals.get(key) : undefined;
    let verdict = await verdictOn(options, asked, shownWithMeta, remembered);
    if (remembered !== undefined && reasonsOfEnd.has(reasonOf(verdict))) {
      approvals.delete(key);
      // Denied: the client learns that once. Otherwise the approval does not fit any more. A proof of
      // possession is used up by now.
      if (reasonOf(verdict) !== 'approval_denied' && !showsProof(options, asked, shown)) {
        verdict = await verdictOn(options, asked, shownWithMeta, undefined);
      }
    }
    const what = asked.as === null ? { tool: params['name'] } : { method: asked.method };
    if (verdict.kind === 'pass') {
      approvals.delete(key);
      const { decision, attestation_id } = verdict.decision;
      const settle = settlementOf(options, asked);
      if (settle !== undefined && decision === 'PERMIT')
        asked.onHeld?.({ decision: verdict.decision, settle });
      logger[decision === 'PERMIT' ? 'debug' : 'warn']({ ...what, decision, attestation_id }, 'call passed');
      return null;
    }
    const { decision, approval_id, attestation_id } = verdict.body;
    if (decision === 'SUSPEND' && typeof approval_id === 'string') approvals.set(key, approval_id);
    logger.info({ ...what, decision, reason: reasonOf(verdict), attestation_id }, 'call refused');
    return {
      answer: asked.as === null ? { result: refusalOf(verdict) } : { error: errorOf(verdict) },
      invalidToken: isOfToken(verdict) ? String(reasonOf(verdict)) : null,
    };
  };
}

const reasonsOfEnd: ReadonlySet<unknown> = new Set([
  'approval_denied',
  'approval_expired',
  'approval_used',
  'approval_mismatch',
]);

/** Another audience or issuer is a fault of the token, too (RFC 6750 §3.1). */
const isOfToken = (verdict: Refusal): boolean =>
  verdict.status === 401 || reasonOf(verdict) === 'issuer_untrusted';

const showsProof = ({ origin }: CallGuardOptions, { carrier }: Asked, shown: Shown): boolean =>
  origin !== undefined && carrier !== undefined && (shown('dpop') ?? shown('signature-input')) !== undefined;

type Refusal = Extract<GuardVerdict, { kind: 'refuse' }>;

const reasonOf = (verdict: GuardVerdict): unknown =>
  verdict.kind === 'pass' ? null : (verdict.body['reason'] ?? errorIn(verdict)['code']);

const settlementOf = ({ settlements }: CallGuardOptions, { params, as }: Asked) =>
  as === null ? settlements.get(toolKey(String(params['name']))) : undefined;

type Question = Pick<GuardOptions<null>, 'permission' | 'amount' | 'context' | 'display'> & {
  readonly path: string;
};

/** Null: no permission can be called as this tool. */
function questionOf({ amounts, hidden }: CallGuardOptions, { params, as }: Asked): Question | null {
  const { name, arguments: given, _meta, ...others } = params;
  if (as !== null) {
    const { _meta: __, ...shown } = params;
    return {
      permission: as.permission,
      path: subjectOf(as, params),
      amount: () => amountOf(amounts, as.permission, shown),
      context: () => ({ params: shown }),
      display: () => displayAs(`${as.title} ${subjectOf(as, params)}`.trim(), shown, hidden),
    };
  }
  const tool = String(name);
  const args = (given ?? {}) as JsonObject;
  const permission = permissionOf(tool);
  if (permission === null) return null;
  return {
    permission,
    path: tool,
    amount: () => amountOf(amounts, tool, args),
    // What else a revision of the protocol puts beside the arguments counts for an approval as well. Not
    // beside the members that the gate reads: a client would set its own price by `amount_usd`.
    context: () => ({ tool, arguments: args, ...(isEmpty(others) ? {} : { params: others }) }),
    display: () => displayOf(tool, args, hidden),
  };
}

async function verdictOn(
  options: CallGuardOptions,
  asked: Asked,
  shown: Shown,
  approvalId: string | undefined,
): Promise<GuardVerdict> {
  const question = questionOf(options, asked);
  if (question === null) return unusableName;
  const { path, ...demands } = question;
  const settle = settlementOf(options, asked);
  if (settle !== undefined && (asked.params['task'] ?? null) !== null) return unsettledTask;
  const idempotencyKey = metaOf(asked.params)[idempotencyMeta];
  return decide(
    options,
    {
      gate: options.gate,
      ...demands,
      idempotencyKey: () =>
        options.takesIdempotencyKeys && typeof idempotencyKey === 'string' ? idempotencyKey : undefined,
      dangerouslyServeWithoutDecision: options.servesWithoutDecision,
      ...(settle !== undefined && { settle }),
    },
    null,
    {
      method: asked.method,
      path,
      header: (header) => shown(header) ?? (header === 'x-agent-approval' ? approvalId : undefined),
      body: { kind: 'none' },
      carrier: asked.carrier,
    },
  ).catch((error: unknown) => {
    if (error instanceof GuardError) options.logger.error({ err: error }, 'this proxy is set up wrong');
    else options.logger.error({ err: error }, 'a call could not be decided');
    return internalError;
  });
}

const isEmpty = (members: JsonObject): boolean => Object.keys(members).length === 0;

const refuse = (status: number, body: JsonObject): Refusal => ({ kind: 'refuse', status, headers: {}, body });

/** A reason of the proxy alone. */
export const taskNotSettled = 'task_not_settled';

const unusableName = refuse(403, {
  decision: 'BLOCK',
  reason: 'tool_name_unusable',
  detail: 'No permission can be called as this tool, so that it can be granted to nobody.',
  retry: { retryable: false, after_ms: null },
});
/** Its answer only says that one comes later, which settles nothing. */
const unsettledTask = refuse(403, {
  decision: 'BLOCK',
  reason: taskNotSettled,
  detail: 'What this tool comes to is settled by its answer, so that it cannot be called as a task.',
  retry: { retryable: false, after_ms: null },
});
const internalError = refuse(500, {
  error: {
    code: 'internal_error',
    message: 'The proxy cannot decide. Its operator finds the reason in its log.',
  },
});

/** Key over the passport and the whole request, so that passports do not share approvals. */
function keyOf({ method, params: { _meta, ...params } }: Asked, shown: Shown): string {
  try {
    return sha256Hex(canonicalJson([passportsIn(shown), method, params]));
  } catch {
    // A lone surrogate, which the gate refuses.
    return '';
  }
}

const errorIn = ({ body }: Refusal): JsonObject => (isJsonObject(body['error']) ? body['error'] : {});

/**
 * A refusal as a result of the tool: text for the model, and for programs the decision under `_meta`. Not as
 * `structuredContent`, which SDK 1.x holds against the tool's output schema even in an error.
 */
function refusalOf(verdict: Refusal): JsonObject {
  return {
    resultType: 'complete',
    isError: true,
    content: [{ type: 'text', text: sentencesOf(verdict, ofCall) }],
    _meta: { [decisionMeta]: verdict.body },
  };
}

/** Refused by this proxy, in the range of JSON-RPC for errors of a server. */
export const refusedCode = -32_010;

/** The same for a method whose results have no room for a refusal. */
const errorOf = (verdict: Refusal): JsonObject => ({
  code: refusedCode,
  message: sentencesOf(verdict, ofRequest),
  data: { [decisionMeta]: verdict.body },
});

/** Of a request without a passport that stands (401), or of which that is not known now (503). */
export const passportError = (status: 401 | 503, reason: string, detail: string): JsonObject =>
  errorOf({
    kind: 'refuse',
    status,
    headers: status === 503 ? { 'retry-after': '1' } : {},
    body: { decision: status === 503 ? 'UNAVAILABLE' : 'BLOCK', reason, detail },
  });

interface Words {
  readonly what: string;
  readonly again: string;
}
const ofCall: Words = { what: 'call', again: 'call the tool again' };
const ofRequest: Words = { what: 'request', again: 'send it again' };

function sentencesOf(verdict: Refusal, words: Words): string {
  const { decision, detail, approval_id, approval_url, expires_at, attestation_id } = verdict.body;
  if (decision === 'SUSPEND') {
    return (
      `agent-trust has suspended this ${words.what}: a person has to approve it first. ` +
      `Ask for that at ${approval_url ?? `approval ${approval_id}`} before ${expires_at}. ` +
      `After it is approved, ${words.again} with the very same arguments.`
    );
  }
  const why = detail ?? errorIn(verdict)['message'] ?? '';
  const record = typeof attestation_id === 'string' ? ` Record: ${attestation_id}.` : '';
  return `agent-trust has refused this ${words.what}, reason ${reasonOf(verdict)}: ${why} ${advice(verdict, words)}${record}`;
}

function advice(verdict: Refusal, { what, again }: Words): string {
  const capital = again.charAt(0).toUpperCase() + again.slice(1);
  if (reasonOf(verdict) === 'amount_missing') {
    return 'The operator of this proxy names what it costs with --amounts.';
  }
  const { retry } = verdict.body;
  const seconds = verdict.headers['retry-after'];
  if (seconds !== undefined) return `${capital} in ${seconds} s.`;
  if (isJsonObject(retry) && retry['retryable'] === true) return `${capital} later.`;
  return `The same ${what} will be refused again.`;
}
