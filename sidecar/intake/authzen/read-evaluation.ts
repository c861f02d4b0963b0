import { type Static, Type } from 'typebox';
import { canonicalJson } from '../../../shared/crypto/canonical-json.ts';
import { isJsonObject, type JsonObject } from '../../../shared/crypto/json-object.ts';
import { ApiError, invalidRequest } from '../../../shared/errors/api-error.ts';
import { limits } from '../../../shared/model/limits.ts';
import { bodyReader } from '../../../shared/wire/body.ts';
import type { RequestObject } from '../../../shared/wire/check.ts';
import { FreeForm } from '../../../shared/wire/fields.ts';
import { assertSafeJson } from '../../../shared/wire/json.ts';

/**
 * What a sidecar takes of an AuthZEN evaluation request (OpenID AuthZEN Authorization API 1.0 §6; contract
 * §16). Other members may be there and mean nothing.
 */
const EvaluationBody = Type.Object({
  subject: Type.Object({
    type: Type.Literal('agent'),
    id: Type.String(),
    properties: Type.Object({ passport: Type.String() }),
  }),
  action: Type.Object({ name: Type.String(), properties: Type.Optional(FreeForm) }),
  resource: Type.Object({
    type: Type.Literal('gate'),
    id: Type.String(),
    properties: Type.Optional(FreeForm),
  }),
  context: Type.Optional(FreeForm),
});

/** An evaluation in the words of `check`. */
export interface Evaluation {
  /** What the passport must belong to: its agent_id, or its passport_id. */
  readonly subjectId: string;
  /** A bearer credential: never logged. */
  readonly token: string;
  readonly gateId: string;
  readonly request: RequestObject;
}

const readBody = bodyReader(EvaluationBody);

/** Throws `invalid_request` naming the member at fault. The JSON is safe (shared/wire/json.ts). */
export function readEvaluation(body: unknown): Evaluation {
  const evaluation = readBody(body);
  const { subject, resource } = evaluation;
  return {
    subjectId: subject.id,
    token: subject.properties.passport,
    gateId: resource.id,
    request: requestOf(evaluation),
  };
}

/**
 * The request whose hash is recorded: the permission, and all properties of action and resource and the
 * context as one object. A member that is named twice must have one value.
 */
function requestOf({ action, resource, context }: Static<typeof EvaluationBody>): RequestObject {
  const request: Record<string, unknown> = { permission_key: action.name };
  const sources = [
    ['action.properties', action.properties],
    ['resource.properties', resource.properties],
    ['context', context],
  ] as const;
  for (const [place, members] of sources) {
    for (const [name, value] of Object.entries(members ?? {})) {
      if (Object.hasOwn(request, name) && canonicalJson(request[name]) !== canonicalJson(value)) {
        throw invalidRequest(place, `A member of ${place} has another value elsewhere in the evaluation.`);
      }
      request[name] = value;
    }
  }
  return request;
}

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
