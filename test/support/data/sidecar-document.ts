import { type Static, Type } from 'typebox';
import type {
  Answer,
  Document,
  Operation,
  Reference,
  Schema,
} from '../../../control-plane/openapi/document.ts';
import { ApiError, renderError } from '../../../shared/errors/api-error.ts';
import { assert, must } from '../../../shared/errors/assert.ts';
import { trustTiers } from '../../../shared/model/trust-tier.ts';
import { authzenOperations, authzenSchemas } from './authzen-operations.ts';
import { forwardAuthOperations } from './forward-auth-operation.ts';
import { standingOperation, standingSchemas } from './standing-operation.ts';
import { streamOperation } from './stream-operation.ts';

/**
 * The document of a sidecar, made of the control plane's published one: the operations that a sidecar serves
 * too, without what only the control plane does (plan limits), with what only a sidecar answers. Pure;
 * `sidecar/openapi.json` holds its result, because the sidecar itself knows nothing of the control plane's
 * routes.
 */
export function sidecarDocument(published: Document): Document {
  const shared = (method: string, path: string): Operation =>
    withoutPlanLimits(must(published.paths[path]?.[method], `${method} ${path} is published`));
  const check = shared('post', '/v1/gates/{id}/check');
  const paths = {
    ...authzenOperations(check),
    '/livez': { get: shared('get', '/livez') },
    '/metrics': { get: withMetricsFailure(shared('get', '/metrics')) },
    '/openapi.json': { get: documentOperation },
    '/readyz': { get: { ...shared('get', '/readyz'), description: readinessText } },
    '/v1/enforce': { post: shared('post', '/v1/enforce') },
    '/v1/attestations/{id}/outcome': {
      post: sidecarOutcome(shared('post', '/v1/attestations/{id}/outcome')),
    },
    '/v1/gates/{id}/check': { post: { ...check, description: without(check.description, ofOtherProgram) } },
    '/v1/gates/{id}/check/batch': { post: shared('post', '/v1/gates/{id}/check/batch') },
    '/v1/gates/{id}/standing': { post: standingOperation(check) },
    '/v1/stream': { get: streamOperation(check) },
    ...forwardAuthOperations(check),
  };
  const responses = Object.entries(published.components.responses).map(([name, answer]) => [
    name,
    name === 'Unavailable'
      ? unavailable(answer)
      : withoutSessions({ ...answer, headers: ownHeaders(answer.headers) }),
  ]);
  const components = {
    ...published.components,
    responses: Object.fromEntries(responses),
    schemas: {
      ...published.components.schemas,
      ...authzenSchemas,
      AcceptedOutcome: acceptedOutcome,
      ...standingSchemas,
      Readiness: readinessSchema,
    },
  };
  return {
    openapi: published.openapi,
    info: { ...published.info, title: 'agent-trust sidecar', summary, description },
    // Relative to the document (OpenAPI 3.1 §4.8.5): a sidecar does not know by which names its callers reach
    // it.
    servers: [{ url: '/', description: 'The sidecar that serves this document. It answers no browser.' }],
    tags: published.tags.filter((tag) => 'name' in tag && usedTags.has(tag.name)),
    paths,
    components: onlyReferred(paths, components),
  };
}

const acceptedOutcome: Schema = {
  type: 'object',
  required: ['attestation_id', 'status'],
  properties: {
    attestation_id: { type: 'string', description: 'The PERMIT.' },
    status: { type: 'string', enum: ['accepted'], description: 'It is shipped, exactly once.' },
  },
  examples: [{ attestation_id: 'att_01m7w8f9q7eq3hpcdj9d0hxmcx', status: 'accepted' }],
};

/** A sidecar takes it, and the control plane finds out whether it fits. */
function sidecarOutcome({ responses, ...operation }: Operation): Operation {
  const { 200: _, 409: _conflict, ...others } = responses as Record<string, Answer | Reference>;
  const accepted = {
    description: 'It is in the spool of the sidecar, from which it is shipped exactly once.',
    headers: { 'X-Request-Id': { $ref: '#/components/headers/X-Request-Id' } },
    content: { 'application/json': { schema: { $ref: '#/components/schemas/AcceptedOutcome' } } },
  };
  return {
    ...operation,
    tags: ['Enforcement'],
    description:
      'Answered when it is in the spool. The control plane applies it; what it refuses is in `GET /v1/outcomes`.',
    responses: { 202: accepted, ...others },
  } as Operation;
}

const summary = 'Decisions next to whoever asks.';
const description =
  'A sidecar answers `check` and `enforce` by the same decision core as the control plane, whose document at its own `/openapi.json` has everything ' +
  'else. A decision is a 200 whatever it says: serve on a 200 with `"decision": "PERMIT"` and on nothing else. ' +
  'Nothing here counts towards the plan of the account.\n\n' +
  'Bodies are JSON of at most 64 KiB, sent with a `Content-Length`: `Transfer-Encoding` is refused. Times are ISO 8601 UTC with milliseconds. ' +
  'Every error has the same body, with a code of a closed list.';
const usedTags: ReadonlySet<unknown> = new Set(['Enforcement', 'Operations']);

const ofOtherProgram = ' A sidecar answers it much faster, from the same decision core.';

function without(described: string | undefined, part: string): string {
  const text = must(described, 'the published operation has a description');
  assert(text.includes(part), `the published description holds "${part}"`);
  return text.replace(part, '');
}

const readinessText =
  'Answers 503 where it should get no requests: it has no state to decide on yet, the control plane has turned it away, its spool is full or was so a few ' +
  'seconds ago, the clock of its machine is more than a minute off, or it was told to stop. A control plane that is away does not make it ' +
  'unready; `blocked_trust_levels` says which gates block everything meanwhile.\n\nPublic: needs no key.';

const documentOperation: Operation = {
  operationId: 'getOpenApi',
  summary: 'Get this document',
  tags: ['Operations'],
  description: 'Public: needs no key.',
  security: [],
  responses: {
    200: {
      description: 'Success.',
      headers: { 'X-Request-Id': { $ref: '#/components/headers/X-Request-Id' } },
      content: { 'application/json': { schema: { type: 'object', additionalProperties: true } } },
    },
  },
};

const withMetricsFailure = (operation: Operation): Operation => ({
  ...operation,
  responses: { ...operation.responses, 500: { $ref: '#/components/responses/InternalError' } },
});

/**
 * A sidecar counts no plan limit: it answers no 429, and none of the headers about them. It is the only
 * server of its document.
 */
function withoutPlanLimits({ servers: _, security, ...operation }: Operation): Operation {
  const { 429: __, ...responses } = operation.responses;
  const own = Object.entries(responses).map(([status, answer]): [string, Answer | Reference] => [
    status,
    '$ref' in answer ? answer : { ...answer, headers: ownHeaders(answer.headers) },
  ]);
  const withKeys = security.filter((each) => !('session' in each));
  return { ...operation, security: withKeys, responses: Object.fromEntries(own) };
}

/** No browser session opens a sidecar, so none of its requests can come from another site. */
function withoutSessions(answer: Answer): Answer {
  const code = 'cross_site_request';
  const codes = answer['x-error-codes'] ?? [];
  const media = answer.content?.['application/json'];
  if (!codes.includes(code) || media === undefined) return answer;
  const { [code]: _, ...examples } = media.examples ?? {};
  return {
    ...answer,
    description: answer.description
      .split('\n\n')
      .filter((line) => !line.startsWith(`\`${code}\``))
      .join('\n\n'),
    content: { 'application/json': { ...media, examples } },
    'x-error-codes': codes.filter((each) => each !== code),
  };
}

const ownHeaders = (headers: Answer['headers']): Answer['headers'] =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !name.startsWith('X-RateLimit-')));

/** Why a sidecar gives no decision (contract §5): always with `Retry-After`. */
const unavailableReasons = {
  overloaded: 'A queue or the spool is full, or the control plane answered too late. Send it again.',
  service_unavailable:
    'This sidecar has no state to decide on yet, or the control plane has turned it away. Ask another one; `/readyz` says why.',
} as const;
const stateless = 'This sidecar has not loaded its state yet.';

function unavailable(published: Answer): Answer {
  const codes = ['overloaded', 'service_unavailable'] as const;
  assert(published['x-error-codes']?.join() === codes.join(), 'both programs have the same codes of 503');
  const media = must(published.content?.['application/json'], 'an error is JSON');
  const { request_id: requestId } = (
    must(media.examples?.['overloaded'], 'each code has an example').value as ReturnType<typeof renderError>
  ).error;
  const examples = codes.map((code) => {
    const error = new ApiError(code, code === 'overloaded' ? {} : { message: stateless });
    return [code, { summary: error.message, value: renderError(error, requestId) }] as const;
  });
  return {
    ...published,
    description: codes.map((code) => `\`${code}\`: ${unavailableReasons[code]}`).join('\n\n'),
    headers: ownHeaders(published.headers),
    content: { 'application/json': { ...media, examples: Object.fromEntries(examples) } },
  };
}

const count = (text: string) => Type.Integer({ minimum: 0, description: text });
const yesOrNo = (text: string) => Type.Boolean({ description: text });
const optionalText = (text: string) => Type.Union([Type.String(), Type.Null()], { description: text });
const optionalNumber = (text: string) => Type.Union([Type.Number(), Type.Null()], { description: text });
const oneOf = <const Values extends string[]>(values: readonly [...Values], text: string) =>
  Type.Enum(values, { type: 'string', description: text });
const part = <Fields extends Parameters<typeof Type.Object>[0]>(text: string, fields: Fields) =>
  Type.Object(fields, { description: text });

/**
 * What `readinessOf` of sidecar/operations/readiness.ts answers: a test holds the two types, and real
 * answers, against each other.
 */
export const Readiness = Type.Object({
  status: oneOf(['ready', 'not_ready'], 'Whether this sidecar should get requests.'),
  draining: yesOrNo('It was told to stop and still answers: send nothing new.'),
  state: part('What it knows of gates, keys and revocations.', {
    loaded: yesOrNo('Whether there is a state to decide on.'),
    age_ms: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], {
      description:
        'How long ago it last heard that it was current; null: not yet since its start, as for a state from disk.',
    }),
    account_revision: count('How far it has followed the changes of its account.'),
    global_revision: count('How far it has followed the changes that are for all.'),
    bad_rows: Type.Array(
      Type.Object({
        of: oneOf(['gate', 'api_key', 'signing_key', 'federation'], 'What it is.'),
        id: optionalText('Its id; null: that cannot be read either.'),
        reason: Type.String({ description: 'What is wrong with it.' }),
      }),
      {
        description:
          'Gates and keys of the control plane that this sidecar cannot use, the first 20. They are as if they were not there; all others are in force.',
      },
    ),
    bad_row_count: count('How many there are.'),
  }),
  blocked_trust_levels: Type.Array(
    Type.Object({
      trust_level: oneOf(trustTiers, 'The level of the gates that block.'),
      reason: Type.Literal('state_stale', { description: 'The reason that their answers give.' }),
      since: Type.String({ description: 'Since when they have blocked.' }),
    }),
    { description: 'Gates of these levels block everything now, because the state is too old for them.' },
  ),
  control_plane: part('The connection to the control plane.', {
    connected: yesOrNo('Whether the last call succeeded.'),
    superseded: yesOrNo('Another process has its id: this one serves no more.'),
    must_not_serve: optionalText('Why it must not decide; null: it may.'),
    last_problem: optionalText('What went wrong last; null: nothing.'),
    clock_offset_ms: optionalNumber(
      'The clock of its machine minus that of the control plane, in milliseconds; null: not known yet.',
    ),
    clock_is_off: yesOrNo('Whether the two differ by more than a second.'),
  }),
  history: part('Whether the control plane still has what was in force here.', {
    state: oneOf(
      ['whole', 'regressed'],
      '`regressed`: its database went back, and the stricter of both states decides until agent-trust recover has run.',
    ),
  }),
  spool: part('The records of decisions on their way to the control plane.', {
    state: oneOf(
      ['open', 'broken', 'adrift', 'failed', 'closed'],
      'Whether records can be written; `open`: they can.',
    ),
    full: yesOrNo('Whether it takes no more records: decisions are refused with 503.'),
    steady: yesOrNo('False: it is full, or was so a few seconds ago.'),
    bytes: count('Bytes that wait to be shipped.'),
    shipping: oneOf(['shipping', 'retrying', 'superseded', 'stopped'], 'What becomes of them.'),
    last_error: optionalText('Why they cannot be written, or could not be shipped last; null: they could.'),
    voided_records: part('Records that the control plane got only as missing, since the start, by reason.', {
      refused: count('The control plane refused them.'),
      damaged: count('They could not be read back.'),
      missing: count('They were not there any more.'),
    }),
    damaged_places: count('Places in the spool that could not be read back, since the start.'),
    torn_ends: count('Ends of segments that were cut off by a crash, since the start.'),
  }),
  receipts: part('Signed statements of answers (`request.receipt`).', {
    certified_until: optionalText(
      'Up to when they can be issued without the control plane; null: none can be now, and requests that ask for one are 503.',
    ),
  }),
  server: part('The HTTP server that answers.', {
    name: oneOf(['uWebSockets.js', 'node:http'], 'Which one it is.'),
    fallback_reason: optionalText('Why it is not the preferred one; null: it is.'),
  }),
  ed25519: oneOf(['sodium-native', 'node:crypto', 'noble'], 'What verifies signatures.'),
});
export type Readiness = Static<typeof Readiness>;

/** What a sidecar once answered. */
const readinessExample: Readiness = {
  status: 'ready',
  draining: false,
  state: {
    loaded: true,
    age_ms: 412,
    account_revision: 3,
    global_revision: 1,
    bad_rows: [],
    bad_row_count: 0,
  },
  blocked_trust_levels: [],
  control_plane: {
    connected: true,
    superseded: false,
    must_not_serve: null,
    last_problem: null,
    clock_offset_ms: 0,
    clock_is_off: false,
  },
  history: { state: 'whole' },
  spool: {
    state: 'open',
    full: false,
    steady: true,
    bytes: 0,
    shipping: 'shipping',
    last_error: null,
    voided_records: { refused: 0, damaged: 0, missing: 0 },
    damaged_places: 0,
    torn_ends: 0,
  },
  receipts: { certified_until: '2026-12-04T09:00:00.000Z' },
  server: { name: 'uWebSockets.js', fallback_reason: null },
  ed25519: 'sodium-native',
};

/** Without what TypeBox keeps in its schemas for itself. */
const readinessSchema: Schema = {
  ...JSON.parse(JSON.stringify(Readiness)),
  examples: [readinessExample],
};

type Components = Document['components'];

/** Only the components that the paths refer to, directly or by others. */
function onlyReferred(paths: Document['paths'], components: Components): Components {
  const used = new Set<string>();
  const open: unknown[] = [paths];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    for (const [, kind = '', name = ''] of JSON.stringify(next).matchAll(
      /"\$ref":"#\/components\/(\w+)\/([^"]+)"/g,
    )) {
      if (used.has(`${kind}/${name}`)) continue;
      used.add(`${kind}/${name}`);
      open.push(must(components[kind as keyof Components]?.[name], `${kind}/${name} is a component`));
    }
  }
  const kept = <T>(kind: keyof Components, all: Readonly<Record<string, T>>): Readonly<Record<string, T>> =>
    Object.fromEntries(Object.entries(all).filter(([name]) => used.has(`${kind}/${name}`)));
  return {
    // Named by `security`, which is no reference.
    securitySchemes: Object.fromEntries(
      Object.entries(components.securitySchemes).filter(([name]) => name !== 'session'),
    ),
    headers: kept('headers', components.headers),
    responses: kept('responses', components.responses),
    schemas: kept('schemas', components.schemas),
  };
}
