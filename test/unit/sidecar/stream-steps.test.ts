import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { RequestWriter } from '../../../shared/crypto/request-writer.ts';
import type { VerifiedPassport } from '../../../shared/decision/facts.ts';
import type { ApiKeyId, RequestId } from '../../../shared/model/ids.ts';
import { momentOf, systemClock } from '../../../shared/runtime/clock.ts';
import type { Caller } from '../../../sidecar/decide/callers.ts';
import type { OpenCheck, ReadyCheck } from '../../../sidecar/decide/check.ts';
import { intakeLimits } from '../../../sidecar/intake/limits.ts';
import { streamLimits } from '../../../sidecar/intake/stream/limits.ts';
import { Stream, type StreamDeps } from '../../../sidecar/intake/stream/stream.ts';
import { Turns } from '../../../sidecar/intake/turns.ts';

const keyId = 'key_1' as ApiKeyId;
const requestId = 'req_1' as RequestId;

it.each([
  ['a stream', 0],
  // What waits is kept as bytes then.
  ['beside many that wait, a stream', streamLimits.unreadTextBytesMax],
])(
  '%s has several frames decided in a step, and no more before others had their step',
  async (_what, bytes) => {
    const decided: unknown[] = [];
    const never = () => {
      throw new Error('nothing is refused here');
    };
    const deps: StreamDeps = {
      intake: {
        admit: () => ({}) as Caller,
        open: () => ({ token: null }) as OpenCheck,
        prepare: (check, { call }) => {
          const token = { kind: 'verified', passport: {} as VerifiedPassport };
          return Object.assign(check, { asked: call.request, token }) as ReadyCheck;
        },
        decide: ({ asked }) => decided.push(asked['of']),
        moment: () => momentOf(systemClock),
      },
      answers: { failure: never, countShed: never },
      outcomes: { take: () => undefined },
      turns: new Turns(),
      writer: new RequestWriter(),
      newRequestId: () => requestId,
      unanswered: { bytes },
      onFrame: () => undefined,
      onClose: () => undefined,
    };
    const socket = {
      ...{ bufferedBytes: 0, send: never, pause: never, resume: never, ping: never, close: never },
      terminate: never,
    };
    const each = streamLimits.framesPerStep;
    for (const of of ['a', 'b', 'c']) {
      const stream = new Stream(deps, socket, { keyId, authorization: '' });
      for (let n = 0; n <= each; n++) {
        const frame = { id: `${n}`, gate_id: 'gate_1', passport: 'token', request: { of } };
        stream.onMessage(Buffer.from(JSON.stringify(frame)), false);
      }
    }
    await nextTurn();
    expect(decided).toHaveLength(intakeLimits.checksPerTurnMax);
    while (decided.length < 3 * (each + 1)) await nextTurn();
    const steps = (of: string, count: number) => Array.from({ length: count }, () => of);
    expect(decided).toEqual([
      ...['a', 'b', 'c'].flatMap((of) => steps(of, each)),
      ...['a', 'b', 'c'].flatMap((of) => steps(of, 1)),
    ]);
  },
);
