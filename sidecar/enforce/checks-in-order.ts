import type { VerifiedPassport } from '../../shared/decision/facts.ts';
import type { RequestId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Responder } from '../http/server.ts';
import type { PassportVerifier, TokenOutcome } from '../verify/verifier.ts';
import type { Enforcer } from './enforce.ts';
import type { OpenRequestHead } from './open-request.ts';
import type { CheckReply, CheckResponder } from './replies.ts';

export interface InOrderDeps {
  readonly enforcer: Pick<Enforcer, 'ask' | 'failure'>;
  readonly verifier: Pick<PassportVerifier, 'known' | 'verify'>;
}

/** One of several checks that came in one body. */
export type CheckItem =
  | {
      readonly kind: 'check';
      readonly head: OpenRequestHead;
      /** What the body of `POST check` would be. */
      readonly body: unknown;
      /** Its passport; null: it is refused before its passport is looked at. */
      readonly token: string | null;
      /** Throws where the check does not fit its passport. */
      readonly accept?: (outcome: TokenOutcome) => void;
    }
  /** It is answered with this error and not decided. */
  | { readonly kind: 'refused'; readonly error: unknown };

export interface ChecksInOrderOptions {
  readonly items: readonly CheckItem[];
  readonly requestId: RequestId;
  /** Whoever sent all of them. */
  readonly responder: Pick<Responder, 'isAborted'>;
  /**
   * Each check is decided after the one before was answered, and none after the first answer for which this
   * is true. Absent: all are decided, and nobody waits for an answer.
   */
  readonly endsWith?: (reply: CheckReply) => boolean;
  /** Gets the answers of the checks that were decided or refused, in their order. Not called for an abort. */
  readonly onEnd: (replies: readonly CheckReply[]) => void;
}

/**
 * Decides several checks as if each came alone, in their order (contract §16): all unknown passports are
 * verified before the first decision, and each turn of the event loop decides a bounded number.
 *
 *     begin ──> verifying ──all passports are known──> deciding ──last answer, or the one that ends it──> ended
 */
export class ChecksInOrder {
  readonly #deps: InOrderDeps;
  readonly #options: ChecksInOrderOptions;
  readonly #replies: CheckReply[] = [];
  #answered = 0;
  /** By place, of the passports that were known when the checks came. */
  readonly #known: (VerifiedPassport | null)[] = [];
  /** Of the other tokens; null: it is being verified. Only they are hashed, which takes time for each. */
  readonly #verifications = new Map<string, TokenOutcome | null>();
  #unverified = 0;

  constructor(deps: InOrderDeps, options: ChecksInOrderOptions) {
    this.#deps = deps;
    this.#options = options;
  }

  begin(): void {
    // One more until all have been asked for, because an outcome may come before `verify` returns.
    this.#unverified = 1;
    for (const item of this.#options.items) {
      const token = item.kind === 'check' ? item.token : null;
      const passport = token === null ? null : this.#deps.verifier.known(token);
      this.#known.push(passport);
      if (token !== null && passport === null) this.#verify(token);
    }
    this.#verified();
  }

  #verify(token: string): void {
    if (this.#verifications.has(token)) return;
    this.#verifications.set(token, null);
    this.#unverified++;
    this.#deps.verifier.verify(token, (outcome) => {
      this.#verifications.set(token, outcome);
      this.#verified();
    });
  }

  #outcomeOf(place: number, token: string | null): TokenOutcome | null {
    const passport = this.#known[place] ?? null;
    if (passport !== null) return { kind: 'verified', passport };
    return token === null ? null : (this.#verifications.get(token) ?? null);
  }

  #verified(): void {
    this.#unverified--;
    if (this.#unverified === 0) this.#decideFrom(0);
  }

  /** A turn of the event loop is kept short: all other callers wait for its end. */
  #decideFrom(start: number): void {
    const { items, responder, endsWith } = this.#options;
    if (responder.isAborted) return;
    const atOnce = endsWith === undefined ? limits.batchChecksPerTurn : 1;
    const end = Math.min(start + atOnce, items.length);
    for (let place = start; place < end; place++) this.#decide(place);
    if (endsWith === undefined && end < items.length) setImmediate(() => this.#decideFrom(end));
  }

  #decide(place: number): void {
    const { items, requestId, responder } = this.#options;
    const item = items[place];
    if (item === undefined) return;
    const one = new OneResponder(responder, (reply) => this.#answer(place, reply));
    try {
      if (item.kind === 'refused') throw item.error;
      const outcome = this.#outcomeOf(place, item.token);
      if (outcome !== null) item.accept?.(outcome);
      this.#deps.enforcer.ask(item.head, item.body, one, outcome);
    } catch (error) {
      one.reply(this.#deps.enforcer.failure(error, requestId));
    }
  }

  #answer(place: number, reply: CheckReply): void {
    const { items, endsWith, onEnd } = this.#options;
    this.#replies[place] = reply;
    this.#answered++;
    const isLast = endsWith?.(reply) === true || this.#answered === items.length;
    if (isLast) onEnd(this.#replies);
    else if (endsWith !== undefined) setImmediate(() => this.#decideFrom(place + 1));
  }
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
