import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { Static } from 'typebox';
import { limits } from '../../shared/model/limits.ts';
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

/** Decides one check; `body` is what `POST check` takes. Throws what that is refused with. */
type Check = (caller: Caller, gateId: string, body: unknown) => Promise<DecisionAnswer>;

interface UnreadBatch {
  readonly text: string;
  readonly value: unknown;
}

const readBatch = jsonReader((text): UnreadBatch => ({ text, value: readJsonText(text) }));

/**
 * Many checks at one gate in one call (contract §16). A plugin of its own, because its body is read without a
 * look at the JSON of the single checks: what is wrong with one is said in its result and harms no other.
 */
export function batchRoutes(check: Check): FastifyPluginAsyncTypebox {
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
        // No body at all is `{}`, of which nothing was read.
        const { text = '{}', value = {} } = request.body as Partial<UnreadBatch>;
        const checks = parseCheckBatch(value);
        const losses = lossesByIndex({ text, value }, 'checks');
        const bytes = Buffer.byteLength(text);
        const results: Static<typeof CheckBatchAnswer>['results'] = [];
        // One after the other: that is their order. Once the client has gone, the rest is not decided.
        for (const [index, each] of checks.entries()) {
          if (request.socket.destroyed) break;
          try {
            assertSafeJson(each);
            assertSingleCheck(each, bytes);
            const loss = losses.get(index);
            if (loss !== undefined) throw loss;
            results.push(await check(callerOf(request), request.params.id, each));
          } catch (error) {
            results.push(app.renderFailure(error, request));
          }
        }
        return { results };
      },
    );
  };
}
