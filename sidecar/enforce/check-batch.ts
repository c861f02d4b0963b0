import { isJsonObject } from '../../shared/crypto/json-object.ts';
import { limits } from '../../shared/model/limits.ts';
import { assertSingleCheck, parseCheckBatch } from '../../shared/wire/check-batch.ts';
import type { LargeBody } from '../http/server.ts';
import { type CheckItem, ChecksInOrder, type InOrderDeps } from './checks-in-order.ts';
import type { OpenRequestHead } from './open-request.ts';
import { parseUncheckedBody } from './parse-body.ts';
import { jsonReply } from './replies.ts';

/**
 * Many checks at one gate in one body (contract §16). Their answers come together, when the last one is
 * there: for each a decision as `check` answers it, or its error.
 */
export const checkBatch = (deps: InOrderDeps, head: OpenRequestHead): LargeBody => ({
  bytesMax: limits.batchBodyBytesMax,
  handle: (body, responder) => {
    const { requestId } = head;
    try {
      const checks = parseCheckBatch(parseUncheckedBody(body));
      new ChecksInOrder(deps, {
        items: checks.map((check) => itemOf(check, head, body.byteLength)),
        requestId,
        responder,
        // The body of a decision is the decision, and the body of an error is `{ error }`.
        onEnd: (replies) => {
          const results = replies.map((reply) => reply.body).join(',');
          responder.reply(jsonReply(200, `{"results":[${results}]}`, requestId));
        },
      }).begin();
    } catch (error) {
      responder.reply(deps.enforcer.failure(error, requestId));
    }
  },
});

function itemOf(check: unknown, head: OpenRequestHead, batchBytes: number): CheckItem {
  try {
    assertSingleCheck(check, batchBytes);
  } catch (error) {
    return { kind: 'refused', error };
  }
  const token = isJsonObject(check) ? check['passport'] : null;
  return { kind: 'check', head, body: check, token: typeof token === 'string' ? token : null };
}
