/**
 * Room `sidecar/verify`: from tokens to verified passports. `verified-cache.ts` remembers them, `pool.ts` has
 * the threads.
 */

import { decodeBase64url } from '../../shared/crypto/base64url.ts';
import type { Keyset } from '../../shared/crypto/keyset.ts';
import type { TokenRefusal, VerifiedPassport } from '../../shared/decision/facts.ts';
import { must } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Mode } from '../../shared/model/mode.ts';
import type { VerificationKey } from '../../shared/model/signing-key.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { ForeignIssuer, KnownIssuers } from '../../shared/verification/foreign-issuers.ts';
import { admitOfOthers, openOfOthers } from '../../shared/verification/verify-foreign-token.ts';
import {
  admitToken,
  type OpenedForeignToken,
  type OpenedToken,
  openToken,
  type RefusedToken,
} from '../../shared/verification/verify-token.ts';
import { verifyLimits } from './limits.ts';
import type { VerifyPool } from './pool.ts';
import { tokenKey, type VerifiedCache } from './verified-cache.ts';
import { isValidAt, type VerifyJob } from './verify-task.ts';

/**
 * The outcome for a token. `overloaded`: too many waited, or this one waited too long. `unavailable`: the
 * threads failed. Neither says anything about the token, and neither may lead to a decision.
 */
export type TokenOutcome =
  | { readonly kind: 'refused'; readonly reason: TokenRefusal }
  | { readonly kind: 'verified'; readonly passport: VerifiedPassport }
  | { readonly kind: 'overloaded' }
  | { readonly kind: 'unavailable' };

export type ReportOutcome = (outcome: TokenOutcome) => void;

interface VerifierCounts {
  /** Tokens found in the cache, and tokens whose signature had to be checked. */
  readonly hits: number;
  readonly misses: number;
  /** Tokens refused by their shape or key, before any cryptography. */
  readonly refusedUnverified: number;
  readonly shed: number;
  readonly failed: number;
  /** Requests waiting for a signature now. */
  readonly waiting: number;
}

export interface VerifierDeps {
  /** The current keys: the replica's set changes. */
  readonly keys: () => Keyset;
  /** Learns of an issuer of others that may have new keys. */
  readonly onUnknownKey?: (issuer: ForeignIssuer) => void;
  /** Learns of each token of another issuer that has just verified. */
  readonly onVerified?: (token: string, passport: VerifiedPassport) => void;
  readonly cache: VerifiedCache;
  readonly pool: VerifyPool;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly inlineWhenAlone: boolean;
  /** Requests that may wait at once; default `verifyLimits.verifyQueueMax`. */
  readonly queueMax?: number;
  /** How long a token may wait for its turn, and again for its task; default `limits.decisionDeadlineMs`. */
  readonly deadlineMs?: number;
}

/** Where a token is shown. */
export interface Place {
  /** Of the caller: an issuer of others may be known in both. */
  readonly mode: Mode;
  readonly issuers: KnownIssuers;
}

/** A token whose signature is unchecked, and the requests that wait for it. */
interface Miss {
  readonly opened: OpenedToken | OpenedForeignToken;
  /** `tokenKey` of it. */
  readonly key: string;
  readonly waiters: ReportOutcome[];
  readonly queuedAtMs: MonotonicMillis;
}

const overloaded: TokenOutcome = { kind: 'overloaded' };
const unavailable: TokenOutcome = { kind: 'unavailable' };

/**
 * Turns tokens into verified passports: from memory if the same token verified before, else with the threads
 * of the pool.
 *
 * The unknown tokens of one turn of the event loop go to the pool as one task, because a hand-over costs 33
 * to 40 us of processor time and a signature about 51 us. While every thread is busy, tokens of several turns
 * gather in one batch, so batches grow with the load. Exception: with a fast engine (`inlineWhenAlone`), a
 * token that is alone in its turn, with nothing in flight, is checked inline. That is at most one signature
 * per turn and delays the turn by 51 us, most of which the hand-over would have cost anyway.
 *
 *     verify ──known──> report
 *        └──refused by shape──> report
 *        └──> queued ──turn ends──> in flight ──bits──> report
 *               └─ waited too long ─┴─ late, or thread died ──> report `overloaded` / `unavailable`
 */
export class PassportVerifier {
  readonly #deps: VerifierDeps;
  readonly #queueMax: number;
  readonly #deadlineMs: number;
  /**
   * Queued and in flight, by `tokenKey`, so that a token is not checked twice at once. Whole tokens as keys
   * would be hashed from end to end. Two tokens with one key have a copied signature: only the first is found
   * here, copies of the other are checked one by one.
   */
  readonly #misses = new Map<string, Miss>();
  #queue: Miss[] = [];
  readonly #inFlight = new Set<readonly Miss[]>();
  #turnIsScheduled = false;
  #isClosed = false;
  readonly #counts = { hits: 0, misses: 0, refusedUnverified: 0, shed: 0, failed: 0, waiting: 0 };
  /** Public keys as bytes; the keys of the replica are immutable objects. */
  readonly #keyBytes = new WeakMap<VerificationKey, Uint8Array>();

  constructor(deps: VerifierDeps) {
    this.#deps = deps;
    this.#queueMax = deps.queueMax ?? verifyLimits.verifyQueueMax;
    this.#deadlineMs = deps.deadlineMs ?? limits.decisionDeadlineMs;
  }

  get counts(): VerifierCounts {
    return this.#counts;
  }

  /**
   * The passport of a token that verified here before; null: call `verify`. A warm request needs no more.
   * `among`: as for the cache.
   */
  known(token: string, among = ''): VerifiedPassport | null {
    const passport = this.#deps.cache.find(token, among);
    if (passport !== null) this.#counts.hits++;
    return passport;
  }

  /**
   * Calls `report` exactly once, possibly before it returns. `report` must not throw. A token may be of
   * another issuer at another place.
   */
  verify(token: string, place: Place, report: ReportOutcome): void {
    const outcome = this.#enqueue(token, place, report);
    if (outcome !== null) report(outcome);
  }

  /** Reports everything that waits as `unavailable`, and later tokens at once. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const batch of [this.#queue, ...this.#inFlight]) {
      for (const miss of batch) this.#report(miss, unavailable);
    }
    this.#queue = [];
    await this.#deps.pool.close();
  }

  /** The outcome if it is known at once; null: `report` will get it. */
  #enqueue(token: string, place: Place, report: ReportOutcome): TokenOutcome | null {
    if (this.#isClosed) return unavailable;
    const key = tokenKey(token);
    const found = this.#misses.get(key);
    const asked = found !== undefined && isOf(found.opened, token, place) ? found : undefined;
    const opened = asked?.opened ?? this.#open(token, place);
    if (opened.kind === 'refused') {
      this.#counts.refusedUnverified++;
      return opened;
    }
    if (this.#counts.waiting >= this.#queueMax) {
      this.#counts.shed++;
      return overloaded;
    }
    this.#counts.waiting++;
    if (asked === undefined) this.#queueMiss(key, opened, report);
    else asked.waiters.push(report);
    return null;
  }

  /** A token whose envelope is not ours may be of another issuer. */
  #open(token: string, { mode, issuers }: Place): RefusedToken | OpenedToken | OpenedForeignToken {
    const opened = openToken(token, this.#deps.keys());
    if (opened.kind !== 'refused' || opened.reason !== 'passport_malformed') return opened;
    return openOfOthers(token, issuers, mode, this.#deps.onUnknownKey);
  }

  #queueMiss(key: string, opened: Miss['opened'], report: ReportOutcome): void {
    const miss: Miss = { opened, key, waiters: [report], queuedAtMs: this.#deps.clock.monotonic() };
    this.#counts.misses++;
    if (!this.#misses.has(key)) this.#misses.set(key, miss);
    this.#queue.push(miss);
    this.#scheduleTurn();
  }

  /** Runs once the input of this turn is read, so that all its tokens are queued. */
  #scheduleTurn(): void {
    if (this.#turnIsScheduled) return;
    this.#turnIsScheduled = true;
    setImmediate(() => {
      this.#turnIsScheduled = false;
      this.#dispatch();
    });
  }

  #dispatch(): void {
    const [first] = this.#queue;
    if (first === undefined) return;
    const isQuick = this.#deps.inlineWhenAlone && isQuickToCheck(first.opened);
    if (isQuick && this.#queue.length === 1 && this.#inFlight.size === 0) {
      this.#queue = [];
      this.#checkInline(first);
      return;
    }
    while (this.#inFlight.size < this.#deps.pool.capacity) {
      const batch = this.#nextBatch();
      if (batch.length === 0) return;
      void this.#run(batch);
    }
  }

  #checkInline(miss: Miss): void {
    try {
      this.#admit(miss, isSigned(miss.opened));
    } catch (error) {
      this.#fail([miss], error);
    }
  }

  /** Sheds tokens that waited too long; their requests are answered already. */
  #nextBatch(): Miss[] {
    const oldestMs = this.#deps.clock.monotonic() - this.#deadlineMs;
    const late = this.#queue.findIndex((miss) => miss.queuedAtMs > oldestMs);
    for (const miss of this.#queue.splice(0, late === -1 ? this.#queue.length : late)) this.#shed(miss);
    return this.#queue.splice(0, verifyLimits.verifyBatchMax);
  }

  /** Never rejects: every way a task can end settles its tokens. */
  async #run(batch: readonly Miss[]): Promise<void> {
    this.#inFlight.add(batch);
    const watch = setTimeout(() => this.#giveUpOn(batch), this.#deadlineMs);
    try {
      const valid = await this.#deps.pool.verify(batch.map((miss) => this.#jobOf(miss)));
      for (let i = 0; i < batch.length; i++) {
        this.#admit(must(batch[i], 'one bit for each token'), isValidAt(valid, i));
      }
    } catch (error) {
      this.#fail(batch, error);
    } finally {
      clearTimeout(watch);
      this.#inFlight.delete(batch);
      this.#dispatch();
    }
  }

  #giveUpOn(batch: readonly Miss[]): void {
    this.#deps.logger.error({ tokens: batch.length }, 'a verification task is late');
    for (const miss of batch) this.#shed(miss);
    this.#deps.pool.restart();
  }

  #jobOf(miss: Miss): VerifyJob {
    const { opened } = miss;
    const { signedText, signature } = opened.open;
    if (opened.kind === 'foreign')
      return { signedText, signature, publicKey: opened.key.bytes, algorithm: opened.key.algorithm };
    const { key } = opened;
    let publicKey = this.#keyBytes.get(key.key);
    if (publicKey === undefined) {
      publicKey = must(decodeBase64url(key.key.publicKey), 'a key of the keyset is base64url');
      this.#keyBytes.set(key.key, publicKey);
    }
    return { signedText, signature, publicKey, algorithm: null };
  }

  #admit(miss: Miss, signatureIsValid: boolean): void {
    const { opened } = miss;
    const admitted =
      opened.kind === 'opened'
        ? admitToken(opened, signatureIsValid)
        : admitOfOthers(opened, signatureIsValid);
    // The issuer may have given the name of a key to another one.
    if (opened.kind === 'foreign' && !signatureIsValid) this.#deps.onUnknownKey?.(opened.issuer);
    if (admitted.kind === 'verified') {
      const { token } = opened.open;
      this.#deps.cache.remember(token, admitted.passport);
      if (opened.kind === 'foreign') this.#deps.onVerified?.(token, admitted.passport);
    }
    this.#report(miss, admitted);
  }

  #fail(batch: readonly Miss[], error: unknown): void {
    if (!this.#isClosed) {
      this.#deps.logger.error({ err: error, tokens: batch.length }, 'passports could not be verified');
    }
    for (const miss of batch) this.#report(miss, unavailable);
  }

  #shed(miss: Miss): void {
    this.#counts.shed += miss.waiters.length;
    this.#report(miss, overloaded);
  }

  /** The only place that calls waiters; a second call for the same miss finds none. */
  #report(miss: Miss, outcome: TokenOutcome): void {
    const waiters = miss.waiters.splice(0);
    if (waiters.length === 0) return;
    if (this.#misses.get(miss.key) === miss) this.#misses.delete(miss.key);
    this.#counts.waiting -= waiters.length;
    if (outcome.kind === 'unavailable') this.#counts.failed += waiters.length;
    for (const report of waiters) report(outcome);
  }
}

/** Whether an opened token is this one; of an issuer of others, at such a place. */
const isOf = (opened: Miss['opened'], token: string, { mode, issuers }: Place): boolean =>
  opened.open.token === token &&
  (opened.kind === 'opened' || (opened.issuer.mode === mode && opened.among === issuers.name));

/** ES384 takes ten times as long as the others: too long for everything else on this event loop. */
const isQuickToCheck = (opened: Miss['opened']): boolean =>
  opened.kind === 'opened' || opened.key.algorithm !== 'ES384';

const isSigned = (opened: Miss['opened']): boolean =>
  opened.kind === 'opened'
    ? opened.key.verify(opened.open.signingInput, opened.open.signature)
    : opened.key.verify(Buffer.from(opened.open.signedText, 'latin1'), opened.open.signature);

/**
 * Whether a remembered passport still stands for its token to a caller of this mode. One of another issuer
 * does not after a change of what the issuer's tokens become, or of its keys: then it is verified again.
 */
export const isStill = ({ source, mode: own }: VerifiedPassport, mode: Mode): boolean =>
  source === null || (source.isCurrent && own === mode);
