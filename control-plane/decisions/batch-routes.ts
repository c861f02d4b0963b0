import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { Static } from 'typebox';
import { limits } from '../../shared/model/limits.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import {
  assertSingleCheck,
  CheckBatchAnswer,
  CheckBatchBody,
  lossesByIndex,
  parseCheckBatch,
} from '../../shared/wire/api/check-batch.ts';
import type { DecisionAnswer } from '../../shared/wire/api/decision.ts';
import { assertSafeJson, readJsonText } from '../../shared/wire/api/json.ts';
import { type Caller, callerOf } from '../http/caller.ts';
import { decisionRequest, exampleIds } from '../http/example-ids.ts';
import { jsonReader } from '../http/json-body.ts';
import { operationsOf } from '../http/operation.ts';
import { IdParams } from '../http/path-id.ts';
import { decideInOrder } from './decide-in-order.ts';

const api = operationsOf('Enforcement', {
  checkGateBatch: {
    scope: 'enforcement:check',
    summary: 'Decide many requests at one gate in one call',
    description:
      `1 to ${limits.batchChecksMax} checks, in a body of at most 1 MiB. \`results\` holds one answer for each, in the same order: a decision ` +
      'as `check` answers it, or `{ error }`. Each is decided and recorded as if it came alone, in order; what is wrong with one harms no other.',
    errors: [],
    body: CheckBatchBody,
    examples: { checks: { value: { checks: [{ passport: exampleIds.token, request: decisionRequest }] } } },
  },
});

/**
 * Decides one check; `body` is the body of `POST check`. Throws its refusal. Null: the check has to wait for
 * requests in flight, at most until `untilMs`.
 */
type Check = (
  call: { readonly caller: Caller; readonly gateId: string; readonly body: unknown },
  untilMs: MonotonicMillis | null,
) => Promise<DecisionAnswer | null>;

type Result = Static<typeof CheckBatchAnswer>['results'][number];

interface UnreadBatch {
  readonly text: string;
  readonly value: unknown;
}

const readBatch = jsonReader((text): UnreadBatch => ({ text, value: readJsonText(text) }));

/**
 * Many checks at one gate in one call (contract §16). A separate plugin, because its parser leaves the JSON
 * of each check unread: a malformed check gets an error result and does not affect the others.
 */
export function batchRoutes(check: Check, beginWaiting: () => MonotonicMillis): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.removeContentTypeParser('application/json');
    app.addContentTypeParser('application/json', readBatch);
    app.post(
      '/gates/:id/check/batch',
      {
        config: api.checkGateBatch,
        bodyLimit: limits.batchBodyBytesMax,
        schema: { params: IdParams, response: { 200: CheckBatchAnswer } },
      },
      async (request) => {
        // No body reads as `{}`.
        const { text = '{}', value = {} } = request.body as Partial<UnreadBatch>;
        const checks = parseCheckBatch(value);
        const losses = lossesByIndex({ text, value }, 'checks');
        const bytes = Buffer.byteLength(text);
        const untilMs = beginWaiting();
        const decide = async (place: number, waitUntilMs: MonotonicMillis | null): Promise<Result | null> => {
          const body = checks[place];
          try {
            assertSafeJson(body);
            assertSingleCheck(body, bytes);
            const loss = losses.get(place);
            if (loss !== undefined) throw loss;
            return await check({ caller: callerOf(request), gateId: request.params.id, body }, waitUntilMs);
          } catch (error) {
            return app.renderFailure(error, request);
          }
        };
        const isGone = (): boolean => request.socket.destroyed;
        return { results: await decideInOrder(decide, { count: checks.length, untilMs, isGone }) };
      },
    );
  };
}
