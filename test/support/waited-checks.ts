/**
 * A program: bodies with checks wait until they are in the old generation of V8, then their turns come.
 * Prints how much memory is left behind when the young generation is collected, and how much the checks had.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { RequestWriter } from '../../shared/crypto/request-writer.ts';
import type { VerifiedPassport } from '../../shared/decision/facts.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { RequestId } from '../../shared/model/ids.ts';
import type { MonotonicMillis, UnixMillis } from '../../shared/model/time.ts';
import { ChecksInOrder, type InOrderDeps } from '../../sidecar/intake/several-checks.ts';
import { KeptBodies } from '../../sidecar/intake/kept-bodies.ts';
import type { OpenRequest, OpenRequestHead } from '../../sidecar/decide/check.ts';
import { errorReply } from '../../sidecar/decide/replies.ts';
import { Turns } from '../../sidecar/intake/turns.ts';
import { heapBytesWhenOld, heapBytesWithoutYoung } from './heap-bytes.ts';
import { keepBusy } from './keep-busy.ts';

const bodies = 100;
const textChars = 50_000;
/** One piece in memory. */
const text = (n: unknown): string => Buffer.alloc(textChars, String(n)).toString('latin1');

const requestId = 'req_01' as RequestId;
const refused = errorReply(new ApiError('overloaded'), requestId);
const deps: InOrderDeps = {
  enforcer: {
    begin: (_head, responder) => ({ responder }) as OpenRequest,
    proceedRead: ({ responder }, { call }) => responder.reply({ ...refused, body: text(call.request['n']) }),
    failure: () => refused,
  },
  verifier: { known: () => ({}) as VerifiedPassport, verify: () => undefined },
  turns: new Turns(),
  bodies: new KeptBodies(),
  writer: new RequestWriter(),
  clock: { now: () => 0 as UnixMillis, monotonic: () => 0 as MonotonicMillis },
};

const busy = keepBusy(deps.turns);
let answeredChars = 0;
for (let n = 0; n < bodies; n++) {
  new ChecksInOrder(deps, {
    read: () => ({
      items: [
        {
          kind: 'check',
          head: {} as OpenRequestHead,
          check: { call: { passport: '', request: { n: text(n) } }, canonical: null },
        },
      ],
      onEnd: (replies) => {
        for (const { body } of replies) answeredChars += body.length;
      },
    }),
    requestId,
    responder: { isAborted: false },
    onRefused: (error) => {
      throw error;
    },
  }).begin();
}
const before = heapBytesWhenOld();
busy.isOver = true;
while (answeredChars < bodies * textChars) await nextTurn();
const kept = heapBytesWithoutYoung() - before;
console.log(JSON.stringify({ kept, given: 2 * bodies * textChars }));
