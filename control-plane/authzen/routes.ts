/**
 * Room `control-plane/authzen`: OpenID AuthZEN Authorization API 1.0 at the control plane. `evaluate.ts`
 * decides, also on subjects without a token; `search.ts` finds by policy alone (`may-by-policy.ts`);
 * `access-requests.ts` shows approvals as the Access Request and Approval Profile does; `vocabulary-….ts` has
 * the words of an account's policy enforcement points.
 */

import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import { limits } from '../../shared/model/limits.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import {
  AuthzenMetadata,
  assertAuthzenHeaders,
  authzenMetadata,
  EvaluationAnswer,
  EvaluationsAnswer,
  endsEvaluations,
  givenRequestId,
  readEvaluations,
} from '../../shared/wire/api/authzen.ts';
import { SearchAnswer, searchReaders } from '../../shared/wire/api/authzen-search.ts';
import { assertSingleCheck, lossesByIndex } from '../../shared/wire/api/check-batch.ts';
import { assertLossless, assertSafeJson, readJsonText } from '../../shared/wire/api/json.ts';
import { type AnswerAt, decideInOrder } from '../decisions/decide-in-order.ts';
import { retryUntilMs } from '../decisions/decide-request.ts';
import type { DecisionDeps } from '../decisions/deps.ts';
import { callerOf } from '../http/caller.ts';
import { jsonReader } from '../http/json-body.ts';
import { IdParams } from '../http/path-id.ts';
import { readAccessRequest, submitAccessRequest, Task } from './access-requests.ts';
import { type Evaluator, evaluators } from './evaluate.ts';
import { authzenLimits } from './limits.ts';
import { searchActions, searchResources, searchSubjects } from './search.ts';

const check = { scope: 'enforcement:check' } as const;
const searching = {
  config: { scope: 'enforcement:delegate' },
  bodyLimit: authzenLimits.searchBytesMax,
} as const;

/** An unread body. None reads as `{}`. */
interface Unread {
  readonly text: string;
  readonly value: unknown;
}
const readUnread = jsonReader((text): Unread => ({ text, value: readJsonText(text) }));
const unreadOf = ({ body }: FastifyRequest): Unread => {
  const { text = '{}', value = {} } = body as Partial<Unread>;
  return { text, value };
};

/** The body of a request about one evaluation, or a search. */
function readWhole(request: FastifyRequest): unknown {
  const { text, value } = unreadOf(request);
  assertSafeJson(value);
  assertLossless(text, value);
  return value;
}

const EntityAnswer = Type.Object({ type: Type.String(), id: Type.String() });
const ActionAnswer = Type.Object({ name: Type.String() });

export function authzenRoutes(deps: DecisionDeps): FastifyPluginAsyncTypebox {
  const origin = deps.baseUrl.replace(/\/v1$/, '');
  const requestsUrl = `${origin}/access/v1/requests`;
  return async (app) => {
    installTransport(app);
    app.get(
      '/.well-known/authzen-configuration',
      { config: { scope: null }, schema: { response: { 200: AuthzenMetadata } } },
      async () => ({
        ...authzenMetadata(origin, requestsUrl),
        search_subject_endpoint: `${origin}/access/v1/search/subject`,
        search_resource_endpoint: `${origin}/access/v1/search/resource`,
        search_action_endpoint: `${origin}/access/v1/search/action`,
      }),
    );
    await app.register(evaluationRoutes(deps, requestsUrl), { prefix: '/access/v1' });
    await app.register(searchRoutes(deps), { prefix: '/access/v1/search' });
    await app.register(accessRequestRoutes(deps, requestsUrl), { prefix: '/access/v1' });
  };
}

/** AuthZEN 1.0 §10.1: JSON that says so, and the caller's own request id in the answer. */
function installTransport(app: FastifyInstance): void {
  app.removeContentTypeParser('application/json');
  app.addContentTypeParser('application/json', readUnread);
  app.addHook('onRequest', async ({ method, headers }) => {
    if (method !== 'POST') return;
    assertAuthzenHeaders(String(headers['x-request-id'] ?? ''), headers['content-type'] ?? '');
    headers['content-type'] = 'application/json';
  });
  app.addHook('onSend', async (request, reply) => {
    const given = givenRequestId(request.headers['x-request-id']);
    if (given !== null) reply.header('x-request-id', given);
  });
}

function evaluationRoutes(deps: DecisionDeps, requestsUrl: string): FastifyPluginAsyncTypebox {
  const evaluatorOf = evaluators(deps, requestsUrl);
  const evaluateOne = async (request: FastifyRequest, body: unknown, arrivedAtMs: MonotonicMillis) => {
    const evaluator = await evaluatorOf(callerOf(request), [body], arrivedAtMs);
    // Having waited, an evaluation is decided or refused.
    return (await evaluator.evaluate(body, retryUntilMs(deps))) ?? denied({});
  };
  return async (app) => {
    // Before the signature, which costs more than the refusal.
    const preValidation = async (request: FastifyRequest): Promise<void> =>
      deps.checks.refuseFull(callerOf(request).accountId);
    const arrivalOf = (reply: { readonly elapsedTime: number }): MonotonicMillis =>
      (deps.clock.monotonic() - reply.elapsedTime) as MonotonicMillis;

    app.post(
      '/evaluation',
      { config: check, schema: { response: { 200: EvaluationAnswer } }, preValidation },
      async (request, reply) => evaluateOne(request, readWhole(request), arrivalOf(reply)),
    );

    app.post(
      '/evaluations',
      {
        config: check,
        bodyLimit: limits.batchBodyBytesMax,
        schema: { response: { 200: EvaluationsAnswer } },
        preValidation,
      },
      async (request, reply) => {
        const unread = unreadOf(request);
        const evaluations = readEvaluations(unread.value);
        if (evaluations === null) {
          const body = readWhole(request);
          assertSingleCheck(body, Buffer.byteLength(unread.text));
          return evaluateOne(request, body, arrivalOf(reply));
        }
        const { bodies, semantic } = evaluations;
        const losses = lossesByIndex(unread, 'evaluations');
        const evaluator = await evaluatorOf(callerOf(request), bodies);
        const each: AnswerAt<Answer> = async (place, untilMs) => {
          try {
            const body = bodies[place];
            assertSafeJson(body);
            assertSingleCheck(body, Buffer.byteLength(unread.text));
            const loss = losses.get(place);
            if (loss !== undefined) throw loss;
            return await evaluator.evaluate(body, untilMs);
          } catch (error) {
            return denied({ ...app.renderFailure(error, request) });
          }
        };
        const how = { count: bodies.length, isGone: (): boolean => request.socket.destroyed };
        return {
          evaluations: await (semantic === 'execute_all'
            ? decideInOrder(each, { ...how, untilMs: retryUntilMs(deps) })
            : evaluateUntil(each, {
                ...how,
                untilMs: () => retryUntilMs(deps),
                ends: ({ decision }) => endsEvaluations(semantic, decision),
              })),
        };
      },
    );
  };
}

type Answer = NonNullable<Awaited<ReturnType<Evaluator['evaluate']>>>;

const denied = (context: Static<typeof EvaluationAnswer>['context']): Answer => ({
  decision: false,
  context,
});

/** Each after the answer to the one before it, until one ends it. */
async function evaluateUntil(
  each: AnswerAt<Answer>,
  how: {
    readonly count: number;
    readonly untilMs: () => MonotonicMillis;
    readonly isGone: () => boolean;
    readonly ends: (answer: Answer) => boolean;
  },
): Promise<Answer[]> {
  const answers: Answer[] = [];
  for (let place = 0; place < how.count && !how.isGone(); place++) {
    const answer = (await each(place, how.untilMs())) ?? denied({});
    answers.push(answer);
    if (how.ends(answer)) break;
  }
  return answers;
}

function searchRoutes(deps: DecisionDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.post(
      '/subject',
      { ...searching, schema: { response: { 200: SearchAnswer(EntityAnswer) } } },
      async (request) => searchSubjects(deps, callerOf(request), searchReaders.subject(readWhole(request))),
    );
    app.post(
      '/resource',
      { ...searching, schema: { response: { 200: SearchAnswer(EntityAnswer) } } },
      async (request) => searchResources(deps, callerOf(request), searchReaders.resource(readWhole(request))),
    );
    app.post(
      '/action',
      { ...searching, schema: { response: { 200: SearchAnswer(ActionAnswer) } } },
      async (request) => searchActions(deps, callerOf(request), searchReaders.action(readWhole(request))),
    );
  };
}

function accessRequestRoutes(deps: DecisionDeps, requestsUrl: string): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.post('/requests', { config: check, schema: { response: { 202: Task } } }, async (request, reply) => {
      const body = readWhole(request);
      const answer = await submitAccessRequest(deps, callerOf(request), { body, requestsUrl });
      return reply.code(202).header('location', answer.task.status_endpoint).send(answer);
    });
    app.get(
      '/requests/:id',
      { config: check, schema: { params: IdParams, response: { 200: Task } } },
      async (request, reply) => {
        const { id } = request.params;
        const answer = await readAccessRequest(deps, callerOf(request), { id, requestsUrl });
        if (answer.task.status === 'pending') reply.header('retry-after', authzenLimits.pollAfterS);
        return answer;
      },
    );
  };
}
