import { type Static, Type } from 'typebox';
import { canonicalJson } from '../../crypto/canonical-json.ts';
import { isJsonObject, type JsonObject } from '../../crypto/json-object.ts';
import { ApiError, invalidRequest } from '../../errors/api-error.ts';
import { unreachable } from '../../errors/assert.ts';
import { isId } from '../../model/ids.ts';
import { limits } from '../../model/limits.ts';
import { bodyReader } from './body.ts';
import type { RequestObject } from './check.ts';
import type { DecisionAnswer } from './decision.ts';
import { FreeForm } from './fields.ts';
import { assertSafeJson } from './json.ts';

/**
 * An AuthZEN evaluation request (OpenID AuthZEN Authorization API 1.0 §6; contract §16). Other members may be
 * there and mean nothing.
 */
const EvaluationBody = Type.Object({
  subject: Type.Object({
    type: Type.Enum(['agent', 'user']),
    id: Type.String(),
    properties: Type.Optional(Type.Object({ passport: Type.Optional(Type.String()) })),
  }),
  action: Type.Object({ name: Type.String(), properties: Type.Optional(FreeForm) }),
  resource: Type.Object({ type: Type.String(), id: Type.String(), properties: Type.Optional(FreeForm) }),
  context: Type.Optional(FreeForm),
});
export type Entities = Static<typeof EvaluationBody>;

/** An evaluation in the words of `check`. */
export interface Evaluation {
  /** An agent_id, or a passport_id: of the token, or, where there is none, of a known passport. */
  readonly subjectId: string;
  /** A bearer credential: never logged. Null: the caller names the subject without it. */
  readonly token: string | null;
  readonly gateId: string;
  readonly request: RequestObject;
}

const readBody = bodyReader(EvaluationBody);

/**
 * Throws `invalid_request` naming the member at fault. The JSON is safe (shared/wire/api/json.ts).
 * `translate` puts entities that are not ours into words that are.
 */
export function readEvaluation(
  body: unknown,
  translate: (entities: Entities) => Entities = (entities) => entities,
): Evaluation {
  const evaluation = translate(readBody(body));
  const { subject, resource } = evaluation;
  if (resource.type !== 'gate') throw invalidRequest('resource.type', 'resource.type must be gate.');
  const token = subject.properties?.passport ?? null;
  if (token !== null && subject.type !== 'agent') {
    throw invalidRequest('subject.type', 'subject.type must be agent where there is a passport.');
  }
  return { subjectId: subject.id, token, gateId: resource.id, request: requestOf(evaluation) };
}

/** What becomes the request. */
type Asked = Pick<Entities, 'action' | 'context'> & {
  readonly resource: Pick<Entities['resource'], 'properties'>;
};

/**
 * The request whose hash is recorded: the permission, and all properties of action and resource and the
 * context as one object. A member that is named twice must have one value. `context.approval { id }`, as the
 * Access Request and Approval Profile sends it after an approval, stands for `approval_id`.
 */
export function requestOf({ action, resource, context }: Asked): RequestObject {
  const request: Record<string, unknown> = { permission_key: action.name };
  const sources = [
    ['action.properties', action.properties],
    ['resource.properties', resource.properties],
    ['context', context],
  ] as const;
  for (const [place, members] of sources) {
    for (const [given, value] of Object.entries(members ?? {})) {
      const approvalId = place === 'context' && given === 'approval' ? approvalIn(value) : null;
      const [name, said] = approvalId === null ? [given, value] : ['approval_id', approvalId];
      if (Object.hasOwn(request, name) && canonicalJson(request[name]) !== canonicalJson(said)) {
        throw invalidRequest(place, `A member of ${place} has another value elsewhere in the evaluation.`);
      }
      request[name] = said;
    }
  }
  return request;
}

const approvalIn = (value: unknown): string | null =>
  isJsonObject(value) && typeof value['id'] === 'string' && isId('appr', value['id']) ? value['id'] : null;

const semantics = ['execute_all', 'deny_on_first_deny', 'permit_on_first_permit'] as const;
export type Semantic = (typeof semantics)[number];

export interface Evaluations {
  /** Each as the body of one evaluation, unread: what is wrong with one is said in its own answer. */
  readonly bodies: readonly unknown[];
  readonly semantic: Semantic;
}

/**
 * The evaluations of a boxcarred request (§7), each with the members beside `evaluations` as its defaults.
 * Null: there are none, so that the body is a single evaluation (§7.1). Throws `invalid_request`, also for
 * defaults whose JSON is not accepted, and `body_too_large`. The JSON of each evaluation is not looked at.
 */
export function readEvaluations(body: unknown): Evaluations | null {
  if (!isJsonObject(body)) throw invalidRequest('body', 'The body must be an object.');
  const { evaluations: given, options, ...defaults } = body;
  const evaluations = given ?? [];
  if (!Array.isArray(evaluations) || evaluations.length > limits.batchChecksMax) {
    throw invalidRequest(
      'evaluations',
      `evaluations must be a list of at most ${limits.batchChecksMax} evaluations.`,
    );
  }
  if (evaluations.length === 0) return null;
  // First of all, because JSON.stringify recurses as deep as they are nested.
  assertSafeJson(defaults);
  // They are read, hashed and searched once for each evaluation: a small body must not mean work without end.
  if (Buffer.byteLength(JSON.stringify(defaults)) * evaluations.length > limits.batchBodyBytesMax) {
    throw new ApiError('body_too_large', {
      message: `The defaults of all evaluations together must be at most ${limits.batchBodyBytesMax} bytes: send fewer evaluations, or smaller defaults.`,
    });
  }
  const asked = options ?? {};
  const semantic = isJsonObject(asked) ? (asked['evaluations_semantic'] ?? 'execute_all') : null;
  if (!isSemantic(semantic)) {
    throw invalidRequest('options', `options.evaluations_semantic must be one of ${semantics.join(', ')}.`);
  }
  return {
    bodies: evaluations.map((each) => (isJsonObject(each) ? { ...defaults, ...givenOf(each) } : each)),
    semantic,
  };
}

/** Null for a member of an evaluation means absent (contract §3), so that its default is taken. */
const givenOf = (evaluation: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(evaluation).filter(
      ([name, value]) => value !== null || !Object.hasOwn(EvaluationBody.properties, name),
    ),
  );

const isSemantic = (value: unknown): value is Semantic => semantics.some((each) => each === value);

/** Whether an answer ends several evaluations. */
export function endsEvaluations(semantic: Semantic, isPermit: boolean): boolean {
  switch (semantic) {
    case 'execute_all':
      return false;
    case 'deny_on_first_deny':
      return !isPermit;
    case 'permit_on_first_permit':
      return isPermit;
    default:
      return unreachable(semantic);
  }
}

/** The answer to an evaluation: `context` is that of `check`, with what profiles add, or an error. */
export const EvaluationAnswer = Type.Object({ decision: Type.Boolean(), context: FreeForm });
export const EvaluationsAnswer = Type.Union([
  Type.Object({ evaluations: Type.Array(EvaluationAnswer) }),
  EvaluationAnswer,
]);

/** `requestsUrl`: of the access request endpoint, at the control plane. */
export const evaluationOf = (
  answer: DecisionAnswer,
  requestsUrl: string,
): Static<typeof EvaluationAnswer> => ({
  decision: answer.decision === 'PERMIT',
  context: { ...answer, ...membersOfProfiles(answer, requestsUrl) },
});

/** The same of the text that `check` answers, or of an error. */
export function evaluationJson(
  { status, body }: { readonly status: number; readonly body: string },
  requestsUrl: string,
): string {
  if (status !== 200) return `{"decision":false,"context":${body}}`;
  const answer: DecisionAnswer = JSON.parse(body);
  const more = membersOfProfiles(answer, requestsUrl);
  const context = more === null ? body : `${body.slice(0, -1)},${JSON.stringify(more).slice(1)}`;
  return `{"decision":${answer.decision === 'PERMIT'},"context":${context}}`;
}

/**
 * Throws `invalid_request` for a request id that cannot come back in the answer, which §10.1 demands, and for
 * a body that says that it is no JSON. '': no such header.
 */
export function assertAuthzenHeaders(requestId: string, contentType: string): void {
  if (requestId !== '' && givenRequestId(requestId) === null)
    throw invalidRequest(
      'x-request-id',
      'X-Request-Id must be 1 to 128 printable characters without a space.',
    );
  if (contentType !== '' && !/^application\/json\s*(?:;|$)/i.test(contentType))
    throw invalidRequest('content-type', 'Send the header Content-Type: application/json.');
}

/**
 * The request id of a caller, for its answer (§10.1). Null: none, or one that is not 1 to 128 printable ASCII
 * characters without a space.
 */
export const givenRequestId = (given: unknown): string | null =>
  typeof given === 'string' && /^[\x21-\x7e]{1,128}$/.test(given) ? given : null;

/**
 * What AuthZEN's profiles add to the answer of `check`: a SUSPEND is a requestable denial, whose request
 * exists already (Access Request and Approval Profile); a redaction is an obligation (Obligations Profile).
 */
function membersOfProfiles(answer: DecisionAnswer, requestsUrl: string): JsonObject | null {
  switch (answer.decision) {
    case 'SUSPEND': {
      const { approval_id: id, expires_at } = answer;
      const status_endpoint = `${requestsUrl}/${id}`;
      return {
        evaluation_id: id,
        access_request: { endpoint: requestsUrl, id, status: 'pending', status_endpoint, expires_at },
      };
    }
    case 'PERMIT': {
      const { redactions } = answer;
      if (redactions === undefined) return null;
      const properties = { vendor: 'agent-trust', action: 'redact', redactions };
      return { obligations: [{ id: 'redact', type: 'custom', properties }] };
    }
    case 'BLOCK':
      return endedApprovals.has(answer.reason) ? { next_action: 'none' } : null;
    default:
      return unreachable(answer);
  }
}

/** Of an approval that was presented, and is of no use any more. */
const endedApprovals: ReadonlySet<string> = new Set([
  'approval_denied',
  'approval_expired',
  'approval_used',
  'approval_mismatch',
]);

/** The metadata (§9); the sidecar serves no search. */
export const AuthzenMetadata = Type.Object({
  policy_decision_point: Type.String(),
  access_evaluation_endpoint: Type.String(),
  access_evaluations_endpoint: Type.String(),
  search_subject_endpoint: Type.Optional(Type.String()),
  search_resource_endpoint: Type.Optional(Type.String()),
  search_action_endpoint: Type.Optional(Type.String()),
  access_request_endpoint: Type.String(),
  capabilities: Type.Array(Type.String()),
  supported_obligations: Type.Array(Type.String()),
});

/** The members that both programs have. `origin`: of the program that answers. */
export const authzenMetadata = (origin: string, requestsUrl: string): Static<typeof AuthzenMetadata> => ({
  policy_decision_point: origin,
  access_evaluation_endpoint: `${origin}/access/v1/evaluation`,
  access_evaluations_endpoint: `${origin}/access/v1/evaluations`,
  access_request_endpoint: requestsUrl,
  capabilities: ['urn:openid:authzen:capability:access-request'],
  supported_obligations: ['custom'],
});
