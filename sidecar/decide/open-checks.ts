import { ApiError } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { RequestId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { DurationHistogram } from '../../shared/runtime/duration-histogram.ts';
import { type CheckReply, type CheckResponder, errorReply } from './replies.ts';

/** A request between its body and its answer. */
export interface AnswerableRequest {
  readonly requestId: RequestId;
  readonly responder: CheckResponder;
  readonly openedAtMs: MonotonicMillis;
  /** Among the open requests; -1: it is none of them. Written by `OpenChecks` alone, once it is opened. */
  place: number;
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
export interface OpenChecks<Opened extends AnswerableRequest> {
  open(open: Opened): void;
  /** Answers the request; false if its deadline has already answered it and the reply was dropped. */
  answer(open: Opened, reply: CheckReply): boolean;
  /**
   * Whether the client still waits for the answer. False also if it has disconnected, and the request is
   * forgotten then.
   */
  isWanted(open: Opened): boolean;
  readonly count: number;
  stop(): void;
}

const sweepMs = limits.decisionDeadlineMs / 8;

export function trackOpenChecks<Opened extends AnswerableRequest>(options: {
  readonly clock: Clock;
  readonly onLate: (open: Opened) => void;
  /** Takes how long each answered decision took: every 200. */
  readonly durations: DurationHistogram;
}): OpenChecks<Opened> {
  // Each knows its place, so that one that ends makes way for the last one: a Set hashes each object that it
  // takes in, and is made anew after so many have come and gone.
  const waiting: Opened[] = [];
  const forget = (open: Opened): boolean => {
    const { place } = open;
    if (place === -1) return false;
    const last = must(waiting.pop(), 'an open request has a place');
    if (last !== open) {
      waiting[place] = last;
      last.place = place;
    }
    open.place = -1;
    return true;
  };
  const answer = (open: Opened, reply: CheckReply): boolean => {
    if (!forget(open)) return false;
    open.responder.reply(reply);
    if (reply.status === 200) options.durations.observe(options.clock.monotonic() - open.openedAtMs);
    return true;
  };
  const sweep = setInterval(() => {
    const oldestMs = options.clock.monotonic() - limits.decisionDeadlineMs;
    // Those that end meanwhile leave the list that is looked through. All are looked at: frames of a stream
    // may have come before requests that were opened earlier.
    for (const open of [...waiting]) {
      if (open.place === -1 || open.openedAtMs > oldestMs) continue;
      options.onLate(open);
      answer(open, errorReply(new ApiError('overloaded'), open.requestId));
    }
  }, sweepMs);
  sweep.unref();
  return {
    open: (open) => {
      open.place = waiting.push(open) - 1;
    },
    answer,
    isWanted: (open) => {
      if (!open.responder.isAborted) return open.place !== -1;
      forget(open);
      return false;
    },
    get count() {
      return waiting.length;
    },
    stop: () => clearInterval(sweep),
  };
}
