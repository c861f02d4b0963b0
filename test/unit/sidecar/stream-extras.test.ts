import { describe, expect, it } from 'vitest';
import { RequestWriter } from '../../../shared/crypto/request-writer.ts';
import type { ApiError } from '../../../shared/errors/api-error.ts';
import type { ApiKeyId, RequestId } from '../../../shared/model/ids.ts';
import { limits } from '../../../shared/model/limits.ts';
import { momentOf, systemClock } from '../../../shared/runtime/clock.ts';
import type { Caller } from '../../../sidecar/decide/callers.ts';
import type { OpenCheck, ReceivedCheck } from '../../../sidecar/decide/check.ts';
import { errorReply } from '../../../sidecar/decide/replies.ts';
import { streamLimits } from '../../../sidecar/intake/stream/limits.ts';
import { Stream } from '../../../sidecar/intake/stream/stream.ts';
import { Turns } from '../../../sidecar/intake/turns.ts';

const requestId = 'req_1' as RequestId;

/**
 * A stream of a sidecar that has this much from all clients, while so much is not read by its own, and what
 * it was closed with.
 */
function openStream(unansweredBytes: number, bufferedBytes = 0) {
  const codes: number[] = [];
  const failure = (error: unknown) => errorReply(error as ApiError, requestId);
  const answers: string[] = [];
  const stream = new Stream(
    {
      intake: {
        admit: () => ({}) as Caller,
        open: () => ({ token: null, isOpen: true }) as OpenCheck,
        prepare: (check) => check as ReceivedCheck,
        decide: () => undefined,
        moment: () => momentOf(systemClock),
      },
      answers: { failure, countShed: () => undefined },
      outcomes: { take: () => undefined },
      turns: new Turns(),
      writer: new RequestWriter(),
      newRequestId: () => requestId,
      unanswered: { bytes: unansweredBytes },
      onFrame: () => undefined,
      onClose: () => undefined,
    },
    {
      bufferedBytes,
      send: (messages) => void answers.push(...messages),
      pause: () => undefined,
      resume: () => undefined,
      ping: () => undefined,
      close: (code) => void codes.push(code),
      terminate: () => undefined,
    },
    { keyId: 'key_1' as ApiKeyId, authorization: '' },
  );
  return { stream, codes, answers };
}

/** As many frames of so many bytes as a client may have without an answer, none with its id in front. */
function frames(bytes: number): readonly Buffer[] {
  const count = Math.min(streamLimits.unansweredMax, Math.floor(streamLimits.unansweredBytesMax / bytes));
  const around = JSON.stringify({ gate_id: null, passport: '', request: {}, id: '0000' }).length;
  return Array.from({ length: count }, (_each, index) => {
    const passport = 'p'.repeat(Math.max(0, bytes - around));
    return Buffer.from(JSON.stringify({ gate_id: null, passport, request: {}, id: `${1_000 + index}` }));
  });
}

describe.each([100, 4_096, 20_000, limits.bodyBytesMax])(
  'all frames of a client at once, of %i bytes',
  (bytes) => {
    const sent = frames(bytes);

    it('are each answered by a sidecar that stops, and the stream is not closed for them', async () => {
      const { stream, codes, answers } = openStream(0);
      // One is under way, so that the stream stays open.
      stream.onMessage(Buffer.from('{"id":"first","gate_id":null,"passport":"p","request":{}}'), false);
      stream.stop();
      for (const frame of sent) stream.onMessage(frame, false);
      await Promise.resolve();
      expect(codes).toEqual([]);
      expect(answers.filter((each) => each.includes('service_unavailable'))).toHaveLength(sent.length);
    });

    it('are each answered where the frames of others take all of the room', async () => {
      const { stream, codes, answers } = openStream(streamLimits.unansweredBytesOfAllMax);
      for (const frame of sent) stream.onMessage(frame, false);
      await Promise.resolve();
      expect(codes).toEqual([]);
      expect(answers.filter((each) => each.includes('overloaded'))).toHaveLength(sent.length);
    });
  },
);

it('closes the stream of a client that sends more of them in one turn', () => {
  const { stream, codes } = openStream(streamLimits.unansweredBytesOfAllMax);
  for (let times = 0; times < 3; times++) for (const frame of frames(4_096)) stream.onMessage(frame, false);
  expect(codes).toEqual([4429]);
});

it('closes the stream of a client that reads neither pongs nor answers', async () => {
  const pinged = openStream(0, streamLimits.bufferedBytesMax + 1);
  pinged.stream.onPing();
  expect(pinged.codes).toEqual([4408]);
  // No room for it: it is answered at once.
  const asked = openStream(streamLimits.unansweredBytesOfAllMax, streamLimits.bufferedBytesMax + 1);
  asked.stream.onMessage(frames(4_096)[0] as Buffer, false);
  await Promise.resolve();
  expect(asked.answers).toHaveLength(1);
  expect(asked.codes).toEqual([4408]);
});
