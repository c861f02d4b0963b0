import { expect } from 'vitest';
import { reasons } from '../../../shared/decision/reasons.ts';
import { must } from '../../../shared/errors/assert.ts';
import { StreamClient } from '../peers/stream-client.ts';
import type { Reply } from '../service/api.ts';
import { askForward } from '../service/forward-auth.ts';
import type { TestSidecar } from '../service/sidecar.ts';
import type { DecisionCase } from './decision-case.ts';
import type { Forgery } from './forge-token.ts';

/** What `check` would be asked, and with which key. */
export interface Question {
  /** Null: `/enforce` without a gate. */
  readonly gateId: string | null;
  readonly token: string;
  readonly request: Readonly<Record<string, unknown>>;
  readonly key: string;
}

/** Why a way in cannot express a case. */
export type Rule =
  /** The address or body has to name a gate. */
  | 'no gate'
  /** In process there is no key, so without a gate the mode is live. */
  | 'no gate in test mode'
  /** `action.name` is the only place of the permission, and must be a text. */
  | 'permission by another name'
  /** In a header the token cannot stand, or means something else. */
  | 'token in a header'
  /** Approvals are presented to `check` (contract §15). */
  | 'approval presented'
  /** No header is read for a member of the request. */
  | 'member without a header'
  /** The header of the member does not take the value: null, or an amount with more than 6 decimals. */
  | 'value without a header';

/** What decides, and takes requests. */
export type Program = Pick<TestSidecar, 'origin' | 'call' | 'check'>;

/** A way into a program, in the terms of `check`. */
export interface WayIn {
  readonly name: string;
  /** How many cases it cannot express, by rule. A case counts for the first of its rules. */
  readonly cannot: Readonly<Partial<Record<Rule, number>>>;
  /** Resolves to the answer of `check`, with 200 where there was a decision. */
  ask(program: Program, question: Question): Promise<Reply>;
}

/** The rule by which a way in cannot express the case; null: it can. */
export const ruleAgainst = (decisionCase: DecisionCase, { cannot }: WayIn): Rule | null =>
  (Object.keys(cannot) as Rule[]).find((rule) => rules[rule](decisionCase)) ?? null;

const requestsOf = ({ earlier, approval, request }: DecisionCase) => [
  ...earlier.filter(({ at }) => at !== 'no gate').map((each) => each.request),
  ...(approval === null ? [] : [approval.request]),
  request,
];

/** In a header: no passport, two passports, the end of the line. */
const unheaded: ReadonlySet<Forgery> = new Set(['empty', 'no token at all', 'a trailing newline']);
const headed: ReadonlySet<string> = new Set(['permission_key', 'amount', 'domain']);

const rules: Readonly<Record<Rule, (decisionCase: DecisionCase) => boolean>> = {
  'no gate': ({ gate }) => gate === null,
  'no gate in test mode': ({ gate, mode }) => gate === null && mode === 'test',
  'permission by another name': (decisionCase) =>
    requestsOf(decisionCase).some((request) => typeof request['permission_key'] !== 'string'),
  'token in a header': ({ forgery }) => forgery !== null && unheaded.has(forgery),
  'approval presented': ({ approval, request }) =>
    approval?.isPresented === true ||
    approval?.became === 'used' ||
    typeof request['approval_id'] === 'string',
  'member without a header': (decisionCase) =>
    requestsOf(decisionCase).some((request) => Object.keys(request).some((name) => !headed.has(name))),
  'value without a header': (decisionCase) =>
    requestsOf(decisionCase).some(
      ({ permission_key: permission, amount }) =>
        permission === null || (amount !== undefined && !/^\d+(\.\d{1,6})?$/.test(String(amount))),
    ),
};

const decided = (body: Reply['body']): Reply => ({ status: 'error' in body ? 400 : 200, body, headers: {} });

/** For earlier requests without a gate, where the way in has to name one. */
const enforceUngated = (program: Program, { token, request, key }: Question): Promise<Reply> =>
  program.check(null, token, request, key);

/** Without a socket. */
export const plainly: WayIn = {
  name: 'check',
  cannot: {},
  ask: (program, { gateId, token, request, key }) => program.check(gateId, token, request, key),
};

export const inProcess: WayIn = {
  ...plainly,
  name: 'a function call',
  cannot: { 'no gate in test mode': 1 },
};

export const check: WayIn = { ...plainly, cannot: { 'no gate': 19 } };

/** The request names the gate. */
export const enforce: WayIn = {
  name: 'enforce',
  cannot: {},
  ask: async (program, { gateId, token, request, key }) => {
    if (gateId === null) return program.check(null, token, request, key);
    const reply = await program.check(null, token, { ...request, gate_id: gateId }, key);
    const { request_redacted: redacted, ...body } = reply.body;
    if (redacted === undefined) return reply;
    const { gate_id: named, ...rest } = redacted;
    expect(named).toBe(gateId);
    return { ...reply, body: { ...body, request_redacted: rest } };
  },
};

/** The check comes between two that are refused. */
export const batch: WayIn = {
  name: 'a batch',
  cannot: { 'no gate': 19 },
  ask: async (program, question) => {
    const { gateId, token, request, key } = question;
    if (gateId === null) return enforceUngated(program, question);
    const refused = { passport: token, request: null };
    const body = { checks: [refused, { passport: token, request }, refused] };
    const reply = await program.call({ path: `/v1/gates/${gateId}/check/batch`, key, body });
    expect(reply.status, JSON.stringify(reply.body)).toBe(200);
    const [before, answer, after] = reply.body.results;
    expect(reply.body).toEqual({ results: [before, answer, after] });
    for (const other of [before, after]) expect(other.error.code).toBe('invalid_request');
    return decided(answer);
  },
};

/** Each check has its own connection, which a clock that jumps would end, and comes between bad frames. */
export const stream: WayIn = {
  name: 'a stream',
  cannot: {},
  ask: async (program, { gateId, token, request, key }) => {
    const client = await StreamClient.open(program.origin, key);
    const frame = { gate_id: gateId, passport: token, request };
    client.send({ ...frame, id: 'before', request: null });
    client.send({ ...frame, id: 'the check' });
    client.send({ ...frame, id: 'after', request: null });
    await client.answered(3);
    for (const id of ['before', 'after']) expect(client.answer(id).error.code).toBe('invalid_request');
    const { id: _id, ...answer } = client.answer('the check');
    await client.leave();
    return decided(answer);
  },
};

/** The claims of a token; none where it cannot be read. */
function claimsOf(token: string): { readonly sub?: string; readonly jti?: string } {
  try {
    return JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());
  } catch {
    return {};
  }
}

/** Spreads the members of the request over action, resource and context. */
function evaluationOf({ gateId, token, request }: Question, subjectId: 'sub' | 'jti') {
  const { permission_key: name, ...members } = request;
  const claims = claimsOf(token);
  const entries = Object.entries(members);
  const third = Math.ceil(entries.length / 3);
  const membersOf = (part: number) => Object.fromEntries(entries.slice(part * third, (part + 1) * third));
  return {
    subject: {
      type: 'agent',
      // Tokens of issuers of others need no jti.
      id: claims[subjectId] ?? claims.sub ?? 'unreadable',
      properties: { passport: token },
    },
    action: { name, properties: membersOf(0) },
    resource: { type: 'gate', id: gateId, properties: membersOf(1) },
    context: membersOf(2),
  };
}

const authzen = { 'no gate': 19, 'permission by another name': 5 } as const;

function decidedEvaluation({ decision, context, ...rest }: Reply['body']): Reply {
  expect(rest).toEqual({});
  expect(decision).toBe(context.decision === 'PERMIT');
  // What AuthZEN's profiles add to the answer of `check`, and only where they do.
  const {
    evaluation_id: evaluationId,
    access_request: request,
    obligations,
    next_action,
    ...answer
  } = context;
  const id = answer.decision === 'SUSPEND' ? answer.approval_id : undefined;
  expect([evaluationId, request?.id]).toEqual([id, id]);
  expect(obligations?.[0].properties.redactions).toEqual(answer.redactions);
  const hasEnded = /^approval_(?:denied|expired|used|mismatch)$/.test(answer.reason ?? '');
  expect(next_action).toBe(hasEnded ? 'none' : undefined);
  return decided(answer);
}

export const evaluation: WayIn = {
  name: 'an evaluation of AuthZEN',
  cannot: authzen,
  ask: async (program, question) => {
    if (question.gateId === null) return enforceUngated(program, question);
    const body = evaluationOf(question, 'sub');
    const reply = await program.call({ path: '/access/v1/evaluation', key: question.key, body });
    return reply.status === 200 ? decidedEvaluation(reply.body) : reply;
  },
};

/** Subject and resource are the defaults. The evaluation comes between two that are refused. */
export const evaluations: WayIn = {
  name: 'evaluations of AuthZEN',
  cannot: authzen,
  ask: async (program, question) => {
    if (question.gateId === null) return enforceUngated(program, question);
    const { subject, resource, action, context } = evaluationOf(question, 'jti');
    const refused = { action: { name: 7 } };
    const body = { subject, resource, evaluations: [refused, { action, context }, refused] };
    const reply = await program.call({ path: '/access/v1/evaluations', key: question.key, body });
    expect(reply.status, JSON.stringify(reply.body)).toBe(200);
    const [before, answer, after] = reply.body.evaluations;
    expect(reply.body).toEqual({ evaluations: [before, answer, after] });
    for (const other of [before, after]) {
      expect(other).toMatchObject({ decision: false, context: { error: { code: 'invalid_request' } } });
    }
    return decidedEvaluation(answer);
  },
};

/** The headers that `forwardAuth` has to trust. */
export const forwardedHeaders = ['x-gate-permission', 'x-gate-amount', 'x-forwarded-host'] as const;

const unverified: ReadonlySet<string> = new Set([
  'passport_malformed',
  'passport_unknown_key',
  'passport_signature_invalid',
]);

function forwardedStatus(decision: string, reason: string | null): number {
  if (decision === 'PERMIT') return 200;
  if (reason === 'quota_unavailable' || reason === 'state_stale') return 503;
  return reason?.startsWith('passport_') === true ? 401 : 403;
}

export const forwardAuth: WayIn = {
  name: 'the per-gate address',
  cannot: {
    'no gate': 19,
    'token in a header': 3,
    'approval presented': 19,
    'member without a header': 61,
    'value without a header': 3,
  },
  ask: async (program, question) => {
    const { gateId, token, request, key } = question;
    if (gateId === null) return enforceUngated(program, question);
    const { permission_key: permission, amount, domain } = request;
    const headers = [
      ['X-Agent-Trust-Key', key],
      ['X-Agent-Passport', token],
      ...(permission === undefined ? [] : [['X-Gate-Permission', String(permission)] as const]),
      ...(amount === undefined ? [] : [['X-Gate-Amount', String(amount)] as const]),
      ...(domain === undefined ? [] : [['X-Forwarded-Host', String(domain)] as const]),
    ] as const;
    const answer = must(
      await askForward(program, { target: `/${gateId}/orders`, headers }),
      'a request on its own connection is answered',
    );
    const { body } = answer;
    if ('error' in body) return { status: answer.status, body, headers: answer.headers };
    const { decision, reason, attestation_id: attestationId, retry } = body;
    const isOurs = forwardedStatus(decision, reason) === 503;
    const afterMs = retry?.after_ms ?? (isOurs ? 1_000 : null);
    expect(answer).toMatchObject({
      status: forwardedStatus(decision, reason),
      decision,
      reason: reason ?? '',
      attestationId: attestationId ?? '',
      // Passports of issuers of others have ids that their tokens do not say.
      passportId: unverified.has(reason) ? '' : (claimsOf(token).jti ?? expect.stringMatching(/^pass_/)),
    });
    expect(answer.headers['retry-after']).toBe(
      afterMs === null ? undefined : String(Math.ceil(afterMs / 1_000)),
    );
    if (reason !== 'permission_missing') return decided(body);
    expect(body.detail).toBe(withoutPermission);
    return decided({ ...body, detail: reasons.permission_missing.detail });
  },
};

const withoutPermission =
  'No trusted header names a permission, and no route of the gate has this method and path.';
