import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { Static } from 'typebox';
import { limits } from '../../shared/model/limits.ts';
import { assertSingleCheck, CheckBatchAnswer, parseCheckBatch } from '../../shared/wire/check-batch.ts';
import type { DecisionAnswer } from '../../shared/wire/decision.ts';
import { type Caller, callerOf } from '../http/caller.ts';
import { readUncheckedJson } from '../http/json-body.ts';
import { IdParams } from '../http/path-id.ts';

/** Decides one check; `body` is what `POST check` takes. Throws what that is refused with. */
type Check = (caller: Caller, gateId: string, body: unknown) => Promise<DecisionAnswer>;

/**
 * Many checks at one gate in one call (contract §16). A plugin of its own, because its body is read without a
 * look at the JSON of the single checks: what is wrong with one is said in its result and harms no other.
 */
export function batchRoutes(check: Check): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.removeContentTypeParser('application/json');
    app.addContentTypeParser('application/json', readUncheckedJson);
    app.post(
      '/gates/:id/check/batch',
      {
        config: { scope: 'enforcement:check' },
        bodyLimit: limits.batchBodyBytesMax,
        schema: { params: IdParams, response: { 200: CheckBatchAnswer } },
      },
      async (request) => {
        const checks = parseCheckBatch(request.body);
        const bytes = Number(request.headers['content-length'] ?? limits.batchBodyBytesMax);
        const results: Static<typeof CheckBatchAnswer>['results'] = [];
        // One after the other: that is their order. Once the client has gone, the rest is not decided.
        for (const each of checks) {
          if (request.socket.destroyed) break;
          try {
            assertSingleCheck(each, bytes);
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
