import { isJsonObject } from '../../shared/crypto/json-object.ts';
import { limits } from '../../shared/model/limits.ts';
import { assertSingleCheck, parseCheckBatch } from '../../shared/wire/check-batch.ts';
import type { LargeBody, Reply, Responder } from '../http/server.ts';
import type { PassportVerifier, TokenOutcome } from '../verify/verifier.ts';
import type { Enforcer } from './enforce.ts';
import type { OpenRequestHead } from './open-request.ts';
import { parseBatchBody } from './parse-body.ts';
import { jsonReply } from './replies.ts';

interface BatchDeps {
  readonly enforcer: Pick<Enforcer, 'ask' | 'failure'>;
  readonly verifier: Pick<PassportVerifier, 'known' | 'verify'>;
}

/**
 * Many checks at one gate in one body (contract §16). Each is decided and recorded as if it came alone, and
 * they are decided in their order: all unknown passports are verified before the first decision. Their
 * answers come together, when the last one is there.
 */
export const checkBatch = (deps: BatchDeps, head: OpenRequestHead): LargeBody => ({
  bytesMax: limits.batchBodyBytesMax,
  handle: (body, responder) => {
    try {
      const checks = parseCheckBatch(parseBatchBody(body));
      new CheckBatch(deps, { head, checks, bytes: body.byteLength, responder }).begin();
    } catch (error) {
      responder.reply(deps.enforcer.failure(error, head.requestId));
    }
  },
});

interface Batch {
  readonly head: OpenRequestHead;
  readonly checks: readonly unknown[];
  /** Of the whole body. */
  readonly bytes: number;
  readonly responder: Responder;
}

/**
 *     begin ──> verifying ──all passports are known──> deciding, some checks in each turn ──last answer──> replied
 */
class CheckBatch {
  readonly #deps: BatchDeps;
  readonly #batch: Batch;
  readonly #results: string[];
  #unanswered: number;
  /** By token. */
  readonly #outcomes = new Map<string, TokenOutcome | null>();
  #unverified = 0;

  constructor(deps: BatchDeps, batch: Batch) {
    this.#deps = deps;
    this.#batch = batch;
    this.#results = batch.checks.map(() => '');
    this.#unanswered = batch.checks.length;
  }

  begin(): void {
    // Counted as one more until all have been asked for, because an outcome may come before `verify` returns.
    this.#unverified = 1;
    for (const token of new Set(this.#batch.checks.map(tokenOf))) {
      if (token !== null && this.#deps.verifier.known(token) === null) this.#verify(token);
    }
    this.#isVerified();
  }

  #verify(token: string): void {
    this.#unverified++;
    this.#deps.verifier.verify(token, (outcome) => {
      this.#outcomes.set(token, outcome);
      this.#isVerified();
    });
  }

  #isVerified(): void {
    this.#unverified--;
    if (this.#unverified === 0) this.#decideFrom(0);
  }

  /** A turn of the event loop is kept short: the other callers wait for its end. */
  #decideFrom(start: number): void {
    const { checks, responder } = this.#batch;
    if (responder.isAborted) return;
    const end = Math.min(start + limits.batchChecksPerTurn, checks.length);
    for (let place = start; place < end; place++) this.#decide(place, checks[place]);
    if (end < checks.length) setImmediate(() => this.#decideFrom(end));
  }

  #decide(place: number, check: unknown): void {
    const { head, bytes } = this.#batch;
    const responder = new PlaceInBatch(this.#batch.responder, (reply) => this.#answer(place, reply));
    try {
      assertSingleCheck(check, bytes);
    } catch (error) {
      responder.reply(this.#deps.enforcer.failure(error, head.requestId));
      return;
    }
    const token = tokenOf(check);
    this.#deps.enforcer.ask(head, check, responder, token === null ? null : this.#outcomes.get(token));
  }

  /** The body of a decision is the decision, and the body of an error is `{ error }`. */
  #answer(place: number, { body }: Reply): void {
    this.#results[place] = body;
    this.#unanswered--;
    if (this.#unanswered > 0) return;
    const { head, responder } = this.#batch;
    responder.reply(jsonReply(200, `{"results":[${this.#results.join(',')}]}`, head.requestId));
  }
}

/** Null: the check is refused before its passport is looked at. */
function tokenOf(check: unknown): string | null {
  const token = isJsonObject(check) ? check['passport'] : null;
  return typeof token === 'string' ? token : null;
}

class PlaceInBatch implements Responder {
  readonly reply: Responder['reply'];
  readonly #batch: Responder;

  constructor(batch: Responder, reply: Responder['reply']) {
    this.#batch = batch;
    this.reply = reply;
  }

  get isAborted(): boolean {
    return this.#batch.isAborted;
  }
}
