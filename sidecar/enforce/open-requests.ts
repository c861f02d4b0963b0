import { ApiError } from '../../shared/errors/api-error.ts';
import type { RequestId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { DurationHistogram } from '../../shared/runtime/duration-histogram.ts';
import type { Reply, Responder } from '../http/server.ts';
import { errorReply } from './replies.ts';

/** A request between its body and its answer. */
export interface AnswerableRequest {
  readonly requestId: RequestId;
  readonly responder: Responder;
  readonly openedAtMs: MonotonicMillis;
}

/**
 * The requests that wait for verification or for the spool, so that none waits past
 * limits.decisionDeadlineMs: it is answered 503 `overloaded` then, and what still arrives for it is dropped.
 * A record that the spool took meanwhile stays: its decision was made, though its answer was not received.
 *
 * One timer looks at all of them, because nearly every request is answered within its turn and a timer of its
 * own would cost more than the rest of its bookkeeping. A late request is therefore noticed up to `sweepMs`
 * late.
 */
export interface OpenRequests<Opened extends AnswerableRequest> {
  open(open: Opened): void;
  /** Answers the request; false if its deadline has already answered it and the reply was dropped. */
  answer(open: Opened, reply: Reply): boolean;
  /**
   * Whether the client still waits for the answer. False also if it has disconnected, and the request is
   * forgotten then.
   */
  isWanted(open: Opened): boolean;
  readonly count: number;
  stop(): void;
}

const sweepMs = limits.decisionDeadlineMs / 8;

export function trackOpenRequests<Opened extends AnswerableRequest>(options: {
  readonly clock: Clock;
  readonly onLate: (open: Opened) => void;
  /** Takes how long each answered decision took: every 200. */
  readonly durations: DurationHistogram;
}): OpenRequests<Opened> {
  const waiting = new Set<Opened>();
  const answer = (open: Opened, reply: Reply): boolean => {
    if (!waiting.delete(open)) return false;
    open.responder.reply(reply);
    if (reply.status === 200) options.durations.observe(options.clock.monotonic() - open.openedAtMs);
    return true;
  };
  const sweep = setInterval(() => {
    const oldestMs = options.clock.monotonic() - limits.decisionDeadlineMs;
    for (const open of waiting) {
      // Frames of a stream may have come before requests that were opened earlier: all are looked at.
      if (open.openedAtMs > oldestMs) continue;
      options.onLate(open);
      answer(open, errorReply(new ApiError('overloaded'), open.requestId));
    }
  }, sweepMs);
  sweep.unref();
  return {
    open: (open) => {
      waiting.add(open);
    },
    answer,
    isWanted: (open) => {
      if (!open.responder.isAborted) return waiting.has(open);
      waiting.delete(open);
      return false;
    },
    get count() {
      return waiting.size;
    },
    stop: () => clearInterval(sweep),
  };
}
