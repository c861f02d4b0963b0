import type { RequestWriter } from '../../shared/crypto/request-writer.ts';
import type { VerifiedPassport } from '../../shared/decision/facts.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { RequestId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Responder } from '../http/server.ts';
import type { PassportVerifier, TokenOutcome } from '../verify/verifier.ts';
import type { Enforcer } from '../settle/asking.ts';
import type { KeptBodies, KeptBody } from './kept-bodies.ts';
import type { OpenRequestHead } from '../decide/check.ts';
import type { CanonicalCheck } from './read-check.ts';
import type { CheckReply, CheckResponder } from '../decide/replies.ts';
import type { TurnBudget, Turns, Worker } from './turns.ts';

export interface InOrderDeps {
  readonly enforcer: Pick<Enforcer, 'begin' | 'proceedRead' | 'failure'>;
  readonly verifier: Pick<PassportVerifier, 'known' | 'verify'>;
  readonly turns: Turns;
  /** Where a body is kept that has to wait for its turn. */
  readonly bodies: KeptBodies;
  /** For those who read checks. */
  readonly writer: RequestWriter;
  readonly clock: Clock;
}

/** One of several checks that came in one body. */
export type CheckItem =
  | {
      readonly kind: 'check';
      readonly head: OpenRequestHead;
      readonly check: CanonicalCheck;
      /** Throws where the check does not fit its passport. */
      readonly accept?: (outcome: TokenOutcome) => void;
    }
  /** It is answered with this error and not decided. */
  | { readonly kind: 'refused'; readonly error: unknown };

/** Several checks that came in one body. */
export interface ReadChecks {
  readonly items: readonly CheckItem[];
  /**
   * Each check is decided after the one before was answered, and none after the first answer for which this
   * is true. Absent: all are decided, and nobody waits for an answer.
   */
  readonly endsWith?: (reply: CheckReply) => boolean;
  /** Gets the answers of the checks that were decided or refused, in their order. Not called for an abort. */
  readonly onEnd: (replies: readonly CheckReply[]) => void;
}

export interface ChecksInOrderOptions {
  /** Reads the checks, once, when their turn has come. Throws what all of them are refused with. */
  readonly read: (body: Buffer) => ReadChecks;
  readonly requestId: RequestId;
  /** Whoever sent all of them. */
  readonly responder: Pick<Responder, 'isAborted'>;
  /** In place of `onEnd`: nothing was decided. */
  readonly onRefused: (error: unknown) => void;
}

/** Checks that were read, and what has become of them. */
interface Work extends ReadChecks {
  /** By place. */
  readonly replies: CheckReply[];
  /** By place, of the passports that were known when the checks were read. */
  readonly known: (VerifiedPassport | null)[];
  /** Of the other tokens; null: it is being verified. Only they are hashed, which takes time for each. */
  readonly verifications: Map<string, TokenOutcome | null>;
}

/**
 * Decides several checks as if each came alone, in their order (contract §16): they are read when their turn
 * has come, all unknown passports are verified before the first decision, and each turn of the event loop
 * decides a bounded number (turns.ts).
 *
 *     begin ──its turn──> read ──all passports are known──> deciding ──last answer, or the one that ends it──> ended
 *               └──it came too late, or nothing can be read──> refused
 *
 * What is read lies in an object of its own, which is made when the turn has come and let go with the last
 * answer. Under load V8 moves what waits for a turn to its old generation, and what old objects refer to
 * stays, dead or not, until old ones are collected too: with all in one object, collections of the young
 * generation took ten times as long under 64 callers with batches of 32, in some processes and not in others.
 */
export class ChecksInOrder implements Worker {
  isQueued = false;
  readonly #deps: InOrderDeps;
  readonly #options: ChecksInOrderOptions;
  readonly #cameAtMs: MonotonicMillis;
  /** Null once it is read: that is done once. */
  #unread: KeptBody | null = null;
  /** Null before it is read, and after its end. */
  #work: Work | null = null;
  /** The place of the one that is decided next. */
  #next = 0;
  /** With `endsWith`: one was decided, and has no answer yet. */
  #isWaiting = false;
  #answered = 0;
  #unverified = 0;

  constructor(deps: InOrderDeps, options: ChecksInOrderOptions) {
    this.#deps = deps;
    this.#options = options;
    this.#cameAtMs = deps.clock.monotonic();
  }

  /** `body` needs to last only as long as this takes. Without one, `read` looks at none. */
  begin(body: Buffer = noBytes): void {
    const { turns, bodies } = this.#deps;
    this.#unread = asItIs(body);
    if (turns.tryNow(this)) return;
    try {
      this.#unread = bodies.keep(body);
      turns.wants(this);
    } catch (error) {
      this.#options.onRefused(error);
    }
  }

  /** The same for a single check, which waits for nobody's turn. */
  beginAtOnce(body: Buffer): void {
    this.#unread = asItIs(body);
    if (this.step({ checks: 1, bytes: limits.bodyBytesMax })) this.#deps.turns.wants(this);
  }

  step(budget: TurnBudget): boolean {
    this.#work ??= this.#read(budget);
    const work = this.#work;
    if (work === null || !this.#isReady || this.#options.responder.isAborted) return false;
    const { items, endsWith } = work;
    const end = Math.min(this.#next + (endsWith === undefined ? budget.checks : 1), items.length);
    budget.checks -= end - this.#next;
    while (this.#next < end) this.#decide(work, this.#next++);
    return this.#isReady;
  }

  /** There is one that can be decided now. */
  get #isReady(): boolean {
    return this.#unverified === 0 && !this.#isWaiting && this.#next < (this.#work?.items.length ?? 0);
  }

  /** Null: they were read before, or nobody waits for them any more, or they are refused. */
  #read(budget: TurnBudget): Work | null {
    const body = this.#unread;
    if (body === null) return null;
    this.#unread = null;
    const { read, responder, onRefused } = this.#options;
    budget.bytes -= body.bytes.byteLength;
    try {
      if (responder.isAborted) return null;
      const waitedMs = this.#deps.clock.monotonic() - this.#cameAtMs;
      if (waitedMs >= limits.decisionDeadlineMs) throw new ApiError('overloaded');
      const work: Work = { ...read(body.bytes), replies: [], known: [], verifications: new Map() };
      this.#lookUp(work);
      return work;
    } catch (error) {
      onRefused(error);
      return null;
    } finally {
      body.release();
    }
  }

  /** The passports of all; those that are not known are verified together. */
  #lookUp({ items, known, verifications }: Work): void {
    // One more until all have been asked for, because an outcome may come before `verify` returns.
    this.#unverified = 1;
    for (const item of items) {
      const token = item.kind === 'check' ? item.check.call.passport : null;
      const passport = token === null ? null : this.#deps.verifier.known(token);
      known.push(passport);
      if (token !== null && passport === null) this.#verify(token, verifications);
    }
    this.#unverified--;
  }

  #verify(token: string, verifications: Work['verifications']): void {
    if (verifications.has(token)) return;
    verifications.set(token, null);
    this.#unverified++;
    this.#deps.verifier.verify(token, (outcome) => {
      verifications.set(token, outcome);
      this.#unverified--;
      if (this.#unverified === 0) this.#deps.turns.wants(this);
    });
  }

  #decide(work: Work, place: number): void {
    const { requestId, responder } = this.#options;
    const { enforcer, clock } = this.#deps;
    const item = work.items[place];
    if (item === undefined) return;
    this.#isWaiting = work.endsWith !== undefined;
    const one = new OneResponder(responder, (reply) => this.#answer(work, place, reply));
    try {
      if (item.kind === 'refused') throw item.error;
      const outcome = outcomeOf(work, place, item.check);
      if (outcome !== null) item.accept?.(outcome);
      const nowMs = clock.monotonic();
      enforcer.proceedRead(enforcer.begin(item.head, one, nowMs), item.check, outcome, nowMs);
    } catch (error) {
      one.reply(enforcer.failure(error, requestId));
    }
  }

  #answer({ items, endsWith, onEnd, replies }: Work, place: number, reply: CheckReply): void {
    replies[place] = reply;
    this.#answered++;
    const isLast = endsWith?.(reply) === true || this.#answered === items.length;
    if (isLast) {
      this.#work = null;
      onEnd(replies);
    } else if (endsWith !== undefined) {
      this.#isWaiting = false;
      this.#deps.turns.wants(this);
    }
  }
}

const noBytes = Buffer.alloc(0);

/** A body that does not wait. */
const asItIs = (bytes: Buffer): KeptBody => ({ bytes, release: () => undefined });

function outcomeOf(
  { known, verifications }: Work,
  place: number,
  { call }: CanonicalCheck,
): TokenOutcome | null {
  const passport = known[place] ?? null;
  return passport === null ? (verifications.get(call.passport) ?? null) : { kind: 'verified', passport };
}

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
