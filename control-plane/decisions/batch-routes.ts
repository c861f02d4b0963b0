import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { Static } from 'typebox';
import { limits } from '../../shared/model/limits.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import {
  assertSingleCheck,
  CheckBatchAnswer,
  lossesByIndex,
  parseCheckBatch,
} from '../../shared/wire/check-batch.ts';
import type { DecisionAnswer } from '../../shared/wire/decision.ts';
import { assertSafeJson, readJsonText } from '../../shared/wire/json.ts';
import { type Caller, callerOf } from '../http/caller.ts';
import { jsonReader } from '../http/json-body.ts';
import { IdParams } from '../http/path-id.ts';

/**
 * Decides one check; `body` is what `POST check` takes. Throws what that is refused with. Null: it has to
 * wait for what others have begun; `untilMs`: it waits so long at the most.
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
 * Many checks at one gate in one call (contract §16). A plugin of its own, because its body is read without a
 * look at the JSON of the single checks: what is wrong with one is said in its result and harms no other.
 */
export function batchRoutes(check: Check, beginWaiting: () => MonotonicMillis): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.removeContentTypeParser('application/json');
    app.addContentTypeParser('application/json', readBatch);
    app.post(
      '/gates/:id/check/batch',
      {
        config: { scope: 'enforcement:check' },
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
        const results: (Result | null)[] = [];
        // One after the other: that is their order. Once the client has gone, the rest is not decided.
        for (const place of checks.keys()) {
          if (request.socket.destroyed) break;
          results.push(await decide(place, null));
        }
        // Those that have to wait are passed by the others, and wait together.
        const decided = await Promise.all(results.map((result, place) => result ?? decide(place, untilMs)));
        return { results: decided.filter((result) => result !== null) };
      },
    );
  };
}
