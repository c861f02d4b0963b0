import { limits } from '../../shared/model/limits.ts';
import { assertSingleCheck, lossesByIndex, parseCheckBatch } from '../../shared/wire/check-batch.ts';
import type { LargeBody } from '../http/server.ts';
import { type CheckItem, ChecksInOrder, type InOrderDeps } from './several-checks.ts';
import type { OpenRequestHead } from '../decide/check.ts';
import { canonicalCheck, parseUncheckedBody } from './read-check.ts';
import { jsonReply } from '../decide/replies.ts';

/**
 * Many checks at one gate in one body (contract §16). Their answers come together, when the last one is
 * there: for each a decision as `check` answers it, or its error.
 */
export const checkBatch = (deps: InOrderDeps, head: OpenRequestHead): LargeBody => ({
  bytesMax: limits.batchBodyBytesMax,
  handle: (body, responder) => {
    const { requestId } = head;
    new ChecksInOrder(deps, {
      read: (bytes) => ({
        items: readBatch(deps, head, bytes),
        // The body of a decision is the decision, and the body of an error is `{ error }`.
        onEnd: (replies) => {
          const results = replies.map((reply) => reply.body).join(',');
          responder.reply(jsonReply(200, `{"results":[${results}]}`, requestId));
        },
      }),
      requestId,
      responder,
      onRefused: (error) => responder.reply(deps.enforcer.failure(error, requestId)),
    }).begin(body);
  },
});

function readBatch({ writer }: InOrderDeps, head: OpenRequestHead, body: Buffer): readonly CheckItem[] {
  const unchecked = parseUncheckedBody(body);
  const checks = parseCheckBatch(unchecked.value);
  const losses = lossesByIndex(unchecked, 'checks');
  return checks.map((check, index): CheckItem => {
    const loss = losses.get(index);
    try {
      assertSingleCheck(check, body.byteLength);
      const read = canonicalCheck(check, writer, unchecked.isPlain);
      return loss === undefined ? { kind: 'check', head, check: read } : { kind: 'refused', error: loss };
    } catch (error) {
      return { kind: 'refused', error };
    }
  });
}
