/**
 * A program: bodies with checks wait until they are in the old generation of V8, then their turns come.
 * Prints how much memory is left behind when the young generation is collected, and how much the checks had.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { RequestWriter } from '../../../shared/crypto/request-writer.ts';
import type { VerifiedPassport } from '../../../shared/decision/facts.ts';
import { ApiError } from '../../../shared/errors/api-error.ts';
import type { RequestId } from '../../../shared/model/ids.ts';
import type { MonotonicMillis, UnixMillis } from '../../../shared/model/time.ts';
import type { CheckHead, OpenCheck, ReadyCheck } from '../../../sidecar/decide/check.ts';
import { errorReply } from '../../../sidecar/decide/replies.ts';
import { KeptBodies } from '../../../sidecar/intake/kept-bodies.ts';
import { SeveralChecks, type SeveralChecksDeps } from '../../../sidecar/intake/several-checks.ts';
import { Turns } from '../../../sidecar/intake/turns.ts';
import { heapBytesWhenOld, heapBytesWithoutYoung } from './heap-bytes.ts';
import { keepBusy } from './keep-busy.ts';

const bodies = 100;
const textChars = 50_000;
/** One piece in memory. */
const text = (n: unknown): string => Buffer.alloc(textChars, String(n)).toString('latin1');

const requestId = 'req_01' as RequestId;
const refused = errorReply(new ApiError('overloaded'), requestId);
const moment = { monotonicMs: 0 as MonotonicMillis, nowMs: 0 as UnixMillis };
const deps: SeveralChecksDeps = {
  intake: {
    open: (_head, responder) => ({ responder, token: null }) as OpenCheck,
    prepare: (check, { call }) => {
      const token = { kind: 'verified', passport: {} as VerifiedPassport };
      return Object.assign(check, { asked: call.request, token }) as ReadyCheck;
    },
    decide: ({ responder, asked }) => responder.reply({ ...refused, body: text(asked['n']) }),
    moment: () => moment,
  },
  answers: { failure: () => refused },
  turns: new Turns(),
  bodies: new KeptBodies(),
  writer: new RequestWriter(),
};

const busy = keepBusy(deps.turns);
let answeredChars = 0;
for (let n = 0; n < bodies; n++) {
  new SeveralChecks(deps, {
    list: () => ({
      items: [
        () => ({
          head: {} as CheckHead,
          read: { call: { passport: '', request: { n: text(n) } }, canonical: null },
        }),
      ],
      onEnd: (replies) => {
        for (const { body } of replies) answeredChars += body.length;
      },
    }),
    requestId,
    traceparent: '',
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
