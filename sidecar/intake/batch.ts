import { limits } from '../../shared/model/limits.ts';
import { assertSingleCheck, lossesByIndex, parseCheckBatch } from '../../shared/wire/api/check-batch.ts';
import type { CheckHead } from '../decide/check.ts';
import { jsonReply } from '../decide/replies.ts';
import type { LargeBody } from '../http/server.ts';
import { canonicalCheck, parseUncheckedBody } from './read-check.ts';
import { type CheckItem, SeveralChecks, type SeveralChecksDeps } from './several-checks.ts';

/**
 * Many checks at one gate in one body (contract §16). Their answers come together, when the last one is
 * there: for each a decision as `check` answers it, or its error.
 */
export const checkBatch = (deps: SeveralChecksDeps, head: CheckHead): LargeBody => ({
  bytesMax: limits.batchBodyBytesMax,
  handle: (body, responder) => {
    const { requestId, traceparent } = head;
    new SeveralChecks(deps, {
      list: (bytes) => ({
        items: itemsOf(deps, head, bytes),
        // The body of a decision is the decision, and the body of an error is `{ error }`.
        onEnd: (replies) => {
          const results = replies.map((reply) => reply.body).join(',');
          responder.reply(jsonReply(200, `{"results":[${results}]}`, requestId));
        },
      }),
      requestId,
      traceparent,
      responder,
      onRefused: (error) => responder.reply(deps.answers.failure(error, requestId, traceparent)),
    }).begin(body);
  },
});

function itemsOf({ writer }: SeveralChecksDeps, head: CheckHead, body: Buffer): readonly CheckItem[] {
  const unchecked = parseUncheckedBody(body);
  const batchBytes = body.byteLength;
  const losses = lossesByIndex(unchecked, 'checks');
  return parseCheckBatch(unchecked.value).map((check, index) => () => {
    assertSingleCheck(check, batchBytes);
    const read = canonicalCheck(check, writer, unchecked.isUnescaped);
    const loss = losses.get(index);
    if (loss !== undefined) throw loss;
    return { head, read };
  });
}
