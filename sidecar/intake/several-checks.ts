import type { RequestWriter } from '../../shared/crypto/request-writer.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { RequestId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import type { Moment } from '../../shared/runtime/clock.ts';
import type { Answers } from '../decide/answers.ts';
import type { CheckHead, ReceivedCheck } from '../decide/check.ts';
import type { CheckReply, CheckResponder } from '../decide/replies.ts';
import type { Responder } from '../http/server.ts';
import type { Intake } from './intake.ts';
import type { KeptBodies, KeptBody } from './kept-bodies.ts';
import { Lane, type LaneSource } from './lane.ts';
import type { ReadCheck } from './read-check.ts';
import type { TurnBudget, Turns } from './turns.ts';

export interface SeveralChecksDeps {
  readonly intake: Pick<Intake, 'open' | 'prepare' | 'decide' | 'moment'>;
  readonly answers: Pick<Answers, 'failure'>;
  readonly turns: Turns;
  /** Where a body is kept that has to wait for its turn. */
  readonly bodies: KeptBodies;
  readonly writer: RequestWriter;
}

/** Reads one of several checks that came in one body. Throws what is answered in its place. */
export type CheckItem = () => { readonly head: CheckHead; readonly read: ReadCheck };

/** Several checks that came in one body. */
export interface CheckList {
  readonly items: readonly CheckItem[];
  /**
   * Each check is read and decided after the one before was answered, and none after the first answer for
   * which this is true. Absent: all are decided, and none waits for an answer.
   */
  readonly endsWith?: (reply: CheckReply) => boolean;
  /** Gets the answers of the checks that were decided or refused, in their order. Not called for an abort. */
  readonly onEnd: (replies: readonly CheckReply[]) => void;
}

export interface SeveralChecksOptions {
  /** Finds the checks, once, when their turn has come. Throws what all of them are refused with. */
  readonly list: (body: Buffer) => CheckList;
  readonly requestId: RequestId;
  /** As in CheckHead. */
  readonly traceparent: string;
  /** The sender of all of them. */
  readonly responder: Pick<Responder, 'isAborted'>;
  /** In place of `onEnd`: nothing was decided. */
  readonly onRefused: (error: unknown) => void;
}

/**
 * Several checks that came in one body, each decided as if it came alone, in their order (contract §16).
 *
 *     begin ──its turn──> list ──each, in a lane──> read ──> decided ──last answer, or the one that ends it──> ended
 *               └──it came too late, or no list can be read──> refused
 *
 * What is read lies in an object of its own, made when the turn has come and dropped with the last answer.
 * What waits for a turn reaches the old generation of V8, and would keep alive all that it refers to.
 */
export class SeveralChecks implements LaneSource {
  readonly isHeld = false;
  readonly #deps: SeveralChecksDeps;
  readonly #options: SeveralChecksOptions;
  readonly #arrivedAtMs: MonotonicMillis;
  readonly #lane: Lane;
  /** Null once it is read: that is done once. */
  #unread: KeptBody | null = null;
  /** Null before it is read, and after its end. */
  #work: Work | null = null;

  constructor(deps: SeveralChecksDeps, options: SeveralChecksOptions) {
    this.#deps = deps;
    this.#options = options;
    this.#arrivedAtMs = deps.intake.moment().monotonicMs;
    this.#lane = new Lane(deps, this);
  }

  /** `body` needs to last only as long as this takes. Without one, `list` looks at none. */
  begin(body: Buffer = noBytes): void {
    const { turns, bodies } = this.#deps;
    this.#unread = asItIs(body);
    if (turns.tryNow(this.#lane)) return;
    try {
      this.#unread = bodies.keep(body);
      turns.wants(this.#lane);
    } catch (error) {
      this.#unread = null;
      this.#options.onRefused(error);
    }
  }

  /** The same for a single check, which waits for no turn. */
  beginAtOnce(body: Buffer): void {
    this.#unread = asItIs(body);
    // One that waits for its passport wakes the lane by itself.
    this.#lane.step({ checks: 1, bytes: limits.bodyBytesMax });
  }

  get hasNext(): boolean {
    if (this.#unread !== null) return true;
    const work = this.#work;
    return work?.hasNext === true && !this.#options.responder.isAborted;
  }

  next(moment: Moment, budget: TurnBudget, whenReady: () => void): ReceivedCheck | null {
    this.#work ??= this.#list(moment, budget);
    const work = this.#work;
    const item = work?.next();
    if (work === null || item === undefined) return null;
    const place = work.nextPlace++;
    const one = new OneResponder(this.#options.responder, (reply) => this.#answer(work, place, reply));
    const { intake, answers } = this.#deps;
    try {
      const { head, read } = item();
      const check = intake.open(head, one, this.#arrivedAtMs, moment);
      return intake.prepare(check, read, whenReady);
    } catch (error) {
      const { requestId, traceparent } = this.#options;
      one.reply(answers.failure(error, requestId, traceparent));
      return null;
    }
  }

  /** Null: their client has gone, or they are refused. */
  #list({ monotonicMs }: Moment, budget: TurnBudget): Work | null {
    const body = this.#unread;
    if (body === null) return null;
    this.#unread = null;
    const { list, responder, onRefused } = this.#options;
    budget.bytes -= body.bytes.byteLength;
    try {
      if (responder.isAborted) return null;
      if (monotonicMs - this.#arrivedAtMs >= limits.decisionDeadlineMs) throw new ApiError('overloaded');
      return new Work(list(body.bytes));
    } catch (error) {
      onRefused(error);
      return null;
    } finally {
      body.release();
    }
  }

  #answer(work: Work, place: number, reply: CheckReply): void {
    const isLast = work.answer(place, reply);
    if (isLast) {
      this.#work = null;
      work.list.onEnd(work.replies);
    } else if (work.isOneByOne) this.#lane.wake();
    else this.#lane.noteAnswer();
  }
}

/** Checks that were listed, and what has become of them. */
class Work {
  readonly list: CheckList;
  /** By place. */
  readonly replies: CheckReply[] = [];
  nextPlace = 0;
  #answered = 0;

  constructor(list: CheckList) {
    this.list = list;
  }

  get isOneByOne(): boolean {
    return this.list.endsWith !== undefined;
  }

  get hasNext(): boolean {
    const isWaiting = this.isOneByOne && this.#answered < this.nextPlace;
    return !isWaiting && this.nextPlace < this.list.items.length;
  }

  next(): CheckItem | undefined {
    return this.list.items[this.nextPlace];
  }

  /** True: it was the last one. */
  answer(place: number, reply: CheckReply): boolean {
    this.replies[place] = reply;
    this.#answered++;
    return this.list.endsWith?.(reply) === true || this.#answered === this.list.items.length;
  }
}

const noBytes = Buffer.alloc(0);

/** A body that does not wait. */
const asItIs = (bytes: Buffer): KeptBody => ({ bytes, release: () => undefined });

class OneResponder implements CheckResponder {
  readonly reply: CheckResponder['reply'];
  readonly #all: Pick<Responder, 'isAborted'>;

  constructor(all: Pick<Responder, 'isAborted'>, reply: CheckResponder['reply']) {
    this.#all = all;
    this.reply = reply;
  }

  get isAborted(): boolean {
    return this.#all.isAborted;
  }
}
