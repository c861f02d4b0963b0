import { ApiError } from '../../shared/errors/api-error.ts';
import type { RequestId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { DurationHistogram } from '../../shared/runtime/duration-histogram.ts';
import type { Reply, Responder } from '../http/server.ts';
import { errorReply } from './replies.ts';

/** A request between its body and its answer. */
export interface OpenCall {
  readonly requestId: RequestId;
  readonly responder: Responder;
  readonly openedAtMs: MonotonicMillis;
}

/**
 * The requests that wait for verification or for the spool, so that none waits past
 * limits.decisionDeadlineMs: it is answered 503 `overloaded` then, and what still arrives for it is dropped.
 * A record that the spool took meanwhile stays: it tells of a decision whose answer nobody received.
 *
 * One timer looks at all of them, because nearly every request is answered within its turn and a timer of its
 * own would cost more than the rest of its bookkeeping. A late request is therefore noticed up to `sweepMs`
 * late.
 */
export interface OpenCalls<Opened extends OpenCall> {
  open(call: Opened): void;
  /** Answers the request unless its deadline did; false: it did, and the reply was dropped. */
  answer(call: Opened, reply: Reply): boolean;
  /**
   * Whether somebody still waits for its answer. False also where the client has gone, and the request is
   * forgotten then.
   */
  isWanted(call: Opened): boolean;
  readonly count: number;
  stop(): void;
}

const sweepMs = limits.decisionDeadlineMs / 8;

export function openCalls<Opened extends OpenCall>(options: {
  readonly clock: Clock;
  readonly onLate: (call: Opened) => void;
  /** Takes how long each answered decision took: every 200. */
  readonly durations: DurationHistogram;
}): OpenCalls<Opened> {
  // A set keeps the order of insertion: the oldest request is the first.
  const waiting = new Set<Opened>();
  const answer = (call: Opened, reply: Reply): boolean => {
    if (!waiting.delete(call)) return false;
    call.responder.reply(reply);
    if (reply.status === 200) options.durations.observe(options.clock.monotonic() - call.openedAtMs);
    return true;
  };
  const sweep = setInterval(() => {
    const oldestMs = options.clock.monotonic() - limits.decisionDeadlineMs;
    for (const call of waiting) {
      if (call.openedAtMs > oldestMs) return;
      options.onLate(call);
      answer(call, errorReply(new ApiError('overloaded'), call.requestId));
    }
  }, sweepMs);
  sweep.unref();
  return {
    open: (call) => {
      waiting.add(call);
    },
    answer,
    isWanted: (call) => {
      if (!call.responder.isAborted) return waiting.has(call);
      waiting.delete(call);
      return false;
    },
    get count() {
      return waiting.size;
    },
    stop: () => clearInterval(sweep),
  };
}
