import { ApiError } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { RequestId } from '../../shared/model/ids.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import { DurationHistogram } from '../../shared/runtime/duration-histogram.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { Span, Tracer } from '../../shared/telemetry/tracer.ts';
import { withReceipt } from '../../shared/wire/api/decision.ts';
import { parseTraceparent, traceFields } from '../../shared/wire/api/trace-context.ts';
import type { ReceiptStatement } from '../../shared/wire/evidence/decision-receipt.ts';
import { type Answerer, Check, type CheckHead, type DecidedCheck, type OpenCheck } from './check.ts';
import { abandoned, endedLate, spanEndOf } from './check-span.ts';
import { type DecisionCount, DecisionCounts } from './decision-counts.ts';
import { decideLimits } from './limits.ts';
import { type OpenChecks, trackOpenChecks } from './open-checks.ts';
import type { Receipts } from './receipts.ts';
import {
  type AnswerReply,
  answerReply,
  type CheckReply,
  type CheckResponder,
  type DecisionReply,
  type ErrorReply,
  errorReply,
} from './replies.ts';

/** The checks that are open, and the only way in which one is answered. */
export class Answers implements Answerer {
  /**
   * Answers `overloaded`, because the deadline passed or the spool was full, for example: requests and
   * handshakes, from their head on, each check of a batch and each frame. One whose client has left is not
   * answered.
   */
  shed = 0;
  /** Requests that failed by our own fault. */
  internalErrors = 0;
  /** From the arrival of a check to its answer, of decisions. */
  readonly durations = new DurationHistogram(decideLimits.decisionBucketsMs);
  readonly #open: OpenChecks<OpenCheck>;
  readonly #decisions = new DecisionCounts();
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #tracer: Tracer | null;

  readonly #receipts: Pick<Receipts, 'issue'> | null;

  /** `tracer`: where checks are traced. `receipts`: of those that ask for one; default: none does. */
  constructor({
    clock,
    logger,
    tracer = null,
    receipts = null,
  }: {
    readonly clock: Clock;
    readonly logger: Logger;
    readonly tracer?: Tracer | null;
    readonly receipts?: Pick<Receipts, 'issue'> | null;
  }) {
    this.#clock = clock;
    this.#receipts = receipts;
    this.#logger = logger;
    this.#tracer = tracer;
    this.#open = trackOpenChecks({
      clock,
      onLate: (check) => {
        if (!check.responder.isAborted) this.shed++;
        check.learned?.end(false);
        check.span?.end(check.responder.isAborted ? abandoned : endedLate);
      },
      durations: this.durations,
    });
  }

  /**
   * Decisions made since the start, one row for each outcome and reason that occurred. A first PERMIT
   * that is answered again is not counted.
   */
  get decisions(): Iterable<DecisionCount> {
    return this.#decisions.rows();
  }

  get openRequests(): number {
    return this.#open.count;
  }

  /** `arrivedAtMs`: its deadline, `limits.decisionDeadlineMs`, counts from there. */
  open(head: CheckHead, responder: CheckResponder, arrivedAtMs: MonotonicMillis): OpenCheck {
    const span = this.#tracer === null ? null : this.#begin(this.#tracer, head.traceparent, arrivedAtMs);
    const check = new Check(this, head, responder, arrivedAtMs, span);
    this.#open.open(check);
    return check;
  }

  /**
   * Whether its client still waits. Nothing is taken or recorded for a check without a client.
   */
  isWanted(check: OpenCheck): boolean {
    if (this.#open.isWanted(check)) return true;
    check.learned?.end(false);
    check.span?.end(abandoned);
    return false;
  }

  /** `isRead`: the reply is what the check has read from the control plane. */
  answer(check: OpenCheck, reply: CheckReply, isRead = false): void {
    if (check.receipt !== null && 'answer' in reply) this.#answerSigned(check, check.receipt, reply, isRead);
    else this.#send(check, reply, isRead);
  }

  #answerSigned(check: OpenCheck, statement: ReceiptStatement, reply: AnswerReply, isRead: boolean): void {
    const receipts = must(this.#receipts, 'what cannot be issued was refused');
    receipts.issue(statement, check.decided !== null, (receipt) => {
      if (receipt === null) this.answerLost(check);
      else this.#send(check, answerReply(withReceipt(reply.answer, receipt), check.requestId), isRead);
    });
  }

  #send(check: OpenCheck, reply: CheckReply, isRead: boolean): void {
    const isTold = this.#open.answer(check, reply);
    check.learned?.end(isRead && isTold);
    check.span?.end(spanEndOf(check, reply));
  }

  /** A decision that needs no record here: it is committed, or attested later. */
  answerWith(check: OpenCheck, reply: DecisionReply, isRead = false): void {
    this.#decisions.count(reply.decision);
    this.answer(check, reply, isRead);
  }

  answerDecision(check: DecidedCheck): void {
    this.answerWith(check, check.decided);
  }

  answerLost(check: OpenCheck): void {
    if (this.isWanted(check)) this.answerError(check, new ApiError('overloaded'));
  }

  answerError(check: OpenCheck, error: unknown): void {
    // Its deadline has answered and counted it.
    if (error instanceof ApiError && !this.isWanted(check)) return;
    this.answer(check, this.failure(error, check.requestId, check.traceparent));
  }

  /**
   * The answer to an error, whatever it is: one that is not of the catalogue is logged and counted.
   * `traceparent`: the header of the request, unread.
   */
  failure(error: unknown, requestId: RequestId, traceparent = ''): ErrorReply {
    if (error instanceof ApiError) {
      if (error.code === 'overloaded') this.shed++;
      return errorReply(error, requestId);
    }
    this.internalErrors++;
    const about = { err: error, request_id: requestId, ...traceFields(traceparent) };
    this.#logger.error(about, 'a request failed with an internal error');
    return errorReply(new ApiError('internal_error'), requestId);
  }

  /** One more was answered `overloaded`, with an answer that `failure` has made for another one. */
  countShed(): void {
    this.shed++;
  }

  #begin(tracer: Tracer, traceparent: string, arrivedAtMs: MonotonicMillis): Span | null {
    const agoMs = this.#clock.monotonic() - arrivedAtMs;
    return tracer.start('check', { kind: 'server', parent: parseTraceparent(traceparent), agoMs });
  }

  stop(): void {
    this.#open.stop();
  }
}
