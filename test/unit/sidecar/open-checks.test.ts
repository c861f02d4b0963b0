import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { RequestId } from '../../../shared/model/ids.ts';
import { limits } from '../../../shared/model/limits.ts';
import type { MonotonicMillis } from '../../../shared/model/time.ts';
import { DurationHistogram } from '../../../shared/runtime/duration-histogram.ts';
import type { AnswerableRequest } from '../../../sidecar/decide/open-checks.ts';
import { trackOpenChecks } from '../../../sidecar/decide/open-checks.ts';
import { answerReply, type CheckReply } from '../../../sidecar/decide/replies.ts';

const permit = answerReply(
  {
    decision: 'PERMIT',
    reason: null,
    attestation_id: 'att_01m7w8f9hmk9xzhvcz13er4z9h',
    constraints_evaluated: [],
  },
  'req_1' as RequestId,
);

describe('open calls', () => {
  beforeEach(() => vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] }));
  afterEach(() => vi.useRealTimers());

  const monotonic = () => performance.now() as MonotonicMillis;

  function call(replies: CheckReply[]): AnswerableRequest & { responder: { isAborted: boolean } } {
    const responder = { isAborted: false, reply: (reply: CheckReply) => void replies.push(reply) };
    return { requestId: 'req_1' as RequestId, responder, openedAtMs: monotonic(), place: -1 };
  }

  function setUp() {
    let late = 0;
    const durations = new DurationHistogram([1]);
    const clock = { now: () => 0 as never, monotonic };
    const calls = trackOpenChecks({ clock, onLate: () => late++, durations });
    return { calls, late: () => late };
  }

  it('answers a request that is still open after its deadline, and not before', () => {
    const { calls, late } = setUp();
    const replies: CheckReply[] = [];
    calls.open(call(replies));
    vi.advanceTimersByTime(limits.decisionDeadlineMs - 1);
    expect(replies).toHaveLength(0);
    vi.advanceTimersByTime(limits.decisionDeadlineMs / 4);
    expect(replies.map(({ status }) => status)).toEqual([503]);
    expect(JSON.parse(replies[0]?.body ?? '')).toMatchObject({
      error: { code: 'overloaded', request_id: 'req_1' },
    });
    expect([calls.count, late()]).toEqual([0, 1]);
    calls.stop();
  });

  it('answers each call once: what comes after the deadline is dropped', () => {
    const { calls } = setUp();
    const [early, late]: [CheckReply[], CheckReply[]] = [[], []];
    const [first, second] = [call(early), call(late)];
    calls.open(first);
    calls.open(second);
    expect(calls.answer(first, permit)).toBe(true);
    vi.advanceTimersByTime(limits.decisionDeadlineMs * 2);
    expect(calls.isWanted(second)).toBe(false);
    expect(calls.answer(second, permit)).toBe(false);
    expect([early.map(({ status }) => status), late.map(({ status }) => status)]).toEqual([[200], [503]]);
    calls.stop();
  });

  it('keeps open ones, in whatever order others end', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(), { maxLength: 60 }), (steps) => {
        const { calls } = setUp();
        const open: AnswerableRequest[] = [];
        const replies: CheckReply[] = [];
        for (const step of steps) {
          const [ended] = step % 3 === 0 ? open.splice(step % Math.max(1, open.length), 1) : [];
          if (ended === undefined) {
            const next = call(replies);
            calls.open(next);
            open.push(next);
          } else {
            expect(calls.answer(ended, permit)).toBe(true);
            expect(calls.answer(ended, permit)).toBe(false);
          }
          expect(calls.count).toBe(open.length);
          expect(open.every((each) => calls.isWanted(each))).toBe(true);
        }
        const answered = replies.length;
        vi.advanceTimersByTime(limits.decisionDeadlineMs * 1.5);
        expect([calls.count, replies.length - answered]).toEqual([0, open.length]);
        calls.stop();
      }),
    );
  });

  it('drops a request whose client has disconnected', () => {
    const { calls } = setUp();
    const gone = call([]);
    calls.open(gone);
    expect(calls.isWanted(gone)).toBe(true);
    gone.responder.isAborted = true;
    expect([calls.isWanted(gone), calls.count]).toEqual([false, 0]);
    calls.stop();
  });
});
