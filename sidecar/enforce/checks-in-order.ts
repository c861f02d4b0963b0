import type { RequestWriter } from '../../shared/crypto/request-writer.ts';
import type { VerifiedPassport } from '../../shared/decision/facts.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { RequestId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Responder } from '../http/server.ts';
import type { PassportVerifier, TokenOutcome } from '../verify/verifier.ts';
import type { Enforcer } from './enforce.ts';
import type { OpenRequestHead } from './open-request.ts';
import type { CanonicalCheck } from './parse-body.ts';
import type { CheckReply, CheckResponder } from './replies.ts';
import type { KeptBody, TurnBudget, Turns, Worker } from './turns.ts';

export interface InOrderDeps {
  readonly enforcer: Pick<Enforcer, 'begin' | 'proceedRead' | 'failure'>;
  readonly verifier: Pick<PassportVerifier, 'known' | 'verify'>;
  readonly turns: Turns;
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
  /** Needs to last only as long as `begin` takes. Absent: there is none to be read. */
  readonly body?: Buffer;
  /** Reads the checks, once, when their turn has come. Throws what all of them are refused with. */
  readonly read: (body: Buffer) => ReadChecks;
  readonly requestId: RequestId;
  /** Whoever sent all of them. */
  readonly responder: Pick<Responder, 'isAborted'>;
  /** In place of `onEnd`: nothing was decided. */
  readonly onRefused: (error: unknown) => void;
}

/**
 * Decides several checks as if each came alone, in their order (contract §16): they are read when their turn
 * has come, all unknown passports are verified before the first decision, and each turn of the event loop
 * decides a bounded number (turns.ts).
 *
 *     begin ──its turn──> read ──all passports are known──> deciding ──last answer, or the one that ends it──> ended
 *               └──it came too late, or nothing can be read──> refused
 */
export class ChecksInOrder implements Worker {
  isQueued = false;
  readonly #deps: InOrderDeps;
  readonly #options: ChecksInOrderOptions;
  readonly #cameAtMs: MonotonicMillis;
  /** A copy of the body, while it waits for its turn. */
  #kept: KeptBody | null = null;
  /** Null until they are read. */
  #checks: ReadChecks | null = null;
  readonly #replies: CheckReply[] = [];
  /** The place of the one that is decided next. */
  #next = 0;
  /** With `endsWith`: one was decided, and has no answer yet. */
  #isWaiting = false;
  #answered = 0;
  /** By place, of the passports that were known when the checks were read. */
  readonly #known: (VerifiedPassport | null)[] = [];
  /** Of the other tokens; null: it is being verified. Only they are hashed, which takes time for each. */
  #verifications: Map<string, TokenOutcome | null> | null = null;
  #unverified = 0;

  constructor(deps: InOrderDeps, options: ChecksInOrderOptions) {
    this.#deps = deps;
    this.#options = options;
    this.#cameAtMs = deps.clock.monotonic();
  }

  begin(): void {
    const { turns } = this.#deps;
    if (turns.tryNow(this)) return;
    try {
      this.#kept = turns.keep(this.#options.body ?? noBytes);
      turns.wants(this);
    } catch (error) {
      this.#options.onRefused(error);
    }
  }

  /** The same for a single check, which waits for nobody's turn. */
  beginAtOnce(): void {
    if (this.step({ checks: 1, bytes: limits.bodyBytesMax })) this.#deps.turns.wants(this);
  }

  step(budget: TurnBudget): boolean {
    this.#checks ??= this.#read(budget);
    if (this.#checks === null || !this.#isReady || this.#options.responder.isAborted) return false;
    const { items, endsWith } = this.#checks;
    const end = Math.min(this.#next + (endsWith === undefined ? budget.checks : 1), items.length);
    budget.checks -= end - this.#next;
    while (this.#next < end) this.#decide(this.#checks, this.#next++);
    return this.#isReady;
  }

  /** There is one that can be decided now. */
  get #isReady(): boolean {
    return this.#unverified === 0 && !this.#isWaiting && this.#next < (this.#checks?.items.length ?? 0);
  }

  /** Null: nobody waits for them any more, or they are refused. */
  #read(budget: TurnBudget): ReadChecks | null {
    const { read, responder, onRefused } = this.#options;
    const body = this.#kept?.bytes ?? this.#options.body ?? noBytes;
    this.#kept?.release();
    this.#kept = null;
    budget.bytes -= body.byteLength;
    if (responder.isAborted) return null;
    try {
      const waitedMs = this.#deps.clock.monotonic() - this.#cameAtMs;
      if (waitedMs >= limits.decisionDeadlineMs) throw new ApiError('overloaded');
      const checks = read(body);
      this.#lookUp(checks.items);
      return checks;
    } catch (error) {
      onRefused(error);
      return null;
    }
  }

  /** The passports of all; those that are not known are verified together. */
  #lookUp(items: readonly CheckItem[]): void {
    // One more until all have been asked for, because an outcome may come before `verify` returns.
    this.#unverified = 1;
    for (const item of items) {
      const token = item.kind === 'check' ? item.check.call.passport : null;
      const passport = token === null ? null : this.#deps.verifier.known(token);
      this.#known.push(passport);
      if (token !== null && passport === null) this.#verify(token);
    }
    this.#unverified--;
  }

  #verify(token: string): void {
    this.#verifications ??= new Map();
    const verifications = this.#verifications;
    if (verifications.has(token)) return;
    verifications.set(token, null);
    this.#unverified++;
    this.#deps.verifier.verify(token, (outcome) => {
      verifications.set(token, outcome);
      this.#unverified--;
      if (this.#unverified === 0) this.#deps.turns.wants(this);
    });
  }

  #outcomeOf(place: number, { call }: CanonicalCheck): TokenOutcome | null {
    const passport = this.#known[place] ?? null;
    return passport === null
      ? (this.#verifications?.get(call.passport) ?? null)
      : { kind: 'verified', passport };
  }

  #decide(checks: ReadChecks, place: number): void {
    const { requestId, responder } = this.#options;
    const { enforcer, clock } = this.#deps;
    const item = checks.items[place];
    if (item === undefined) return;
    this.#isWaiting = checks.endsWith !== undefined;
    const one = new OneResponder(responder, (reply) => this.#answer(checks, place, reply));
    try {
      if (item.kind === 'refused') throw item.error;
      const outcome = this.#outcomeOf(place, item.check);
      if (outcome !== null) item.accept?.(outcome);
      const nowMs = clock.monotonic();
      enforcer.proceedRead(enforcer.begin(item.head, one, nowMs), item.check, outcome, nowMs);
    } catch (error) {
      one.reply(enforcer.failure(error, requestId));
    }
  }

  #answer({ items, endsWith, onEnd }: ReadChecks, place: number, reply: CheckReply): void {
    this.#replies[place] = reply;
    this.#answered++;
    const isLast = endsWith?.(reply) === true || this.#answered === items.length;
    if (isLast) onEnd(this.#replies);
    else if (endsWith !== undefined) {
      this.#isWaiting = false;
      this.#deps.turns.wants(this);
    }
  }
}

const noBytes = Buffer.alloc(0);

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
