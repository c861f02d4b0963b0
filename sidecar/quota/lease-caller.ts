import { limits } from '../../shared/model/limits.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { Random } from '../../shared/runtime/random.ts';
import { type RetryPause, retryPause } from '../../shared/runtime/retry-pause.ts';
import { makeWakeup } from '../../shared/runtime/wakeup.ts';
import type { LeaseAnswer, LeaseCall } from '../../shared/wire/sync/lease-call.ts';

/** A lease call without its sender, which may change from one attempt to the next. */
export type LeaseBody = Omit<LeaseCall, 'sidecar_id' | 'connection_id'>;

/** The control plane, as far as leases go. */
export interface LeaseClient {
  /** The control plane is known to be away: waiting for it is pointless. */
  readonly isAway: boolean;
  /**
   * Throws if there is no usable answer within `replicaLimits.quotaCallMsMax`. `overloaded`: the control
   * plane has refused this attempt, for it has too much to do or a window is contended.
   */
  lease(body: LeaseBody): Promise<LeaseAnswer | 'holder_unknown' | 'overloaded'>;
}

export type CallOutcome =
  | { readonly kind: 'answered'; readonly answer: LeaseAnswer; readonly sentAtMs: number }
  | { readonly kind: 'holder_unknown' }
  /** `stop` came first. Units that the ledger granted stay counted until their windows end. */
  | { readonly kind: 'stopped' };

interface LeaseCallerOptions {
  readonly client: LeaseClient;
  /** After each attempt without an answer. */
  readonly onFailure: () => void;
  /** Live epoch of the spool that records what is taken. Absent: the control plane has no such records. */
  readonly epoch?: () => string;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
}

/**
 * Makes one call at a time and repeats it under the same number until it is answered. The ledger may have
 * applied an attempt whose answer was lost; a repeat gets that answer (LeaseCall).
 */
export class LeaseCaller {
  readonly #options: LeaseCallerOptions;
  readonly #pause: RetryPause;
  /** After refusals: repeats of all sidecars must not add to what the control plane is short of. */
  readonly #refusedPause: RetryPause;
  readonly #wakeup = makeWakeup();
  #holder: string;
  #lastSeq = 0;
  #failures = 0;
  #isFailing = false;
  #isStopped = false;

  constructor(options: LeaseCallerOptions) {
    this.#options = options;
    // Well below the time for which requests wait, so that one lost answer costs no decision.
    this.#pause = retryPause(options.random, {
      firstMs: limits.retryFirstMs,
      lastMs: limits.leaseRetryLastMs,
    });
    this.#refusedPause = retryPause(options.random, {
      firstMs: limits.retryFirstMs,
      lastMs: limits.retryLastMs,
    });
    this.#holder = newName(options.random);
  }

  /** 32 hex characters. */
  get holder(): string {
    return this.#holder;
  }

  /** Attempts that were not answered since the start. */
  get failures(): number {
    return this.#failures;
  }

  async call({
    returns,
    asks,
    wallets,
  }: Pick<LeaseBody, 'returns' | 'asks' | 'wallets'>): Promise<CallOutcome> {
    const { epoch, logger } = this.#options;
    const spooled = epoch === undefined ? {} : { epoch: epoch() };
    const looked = wallets === undefined ? {} : { wallets };
    const body = { holder: this.#holder, ...spooled, seq: ++this.#lastSeq, returns, asks, ...looked };
    while (!this.#isStopped) {
      const outcome = await this.#attempt(body);
      if (typeof outcome === 'object') {
        if (this.#isFailing) logger.info({}, 'units can be leased again');
        this.#isFailing = false;
        this.#pause.reset();
        this.#refusedPause.reset();
        return outcome;
      }
      const pause = outcome === 'refused' ? this.#refusedPause : this.#pause;
      if (!this.#isStopped) await this.#wakeup.sleep(pause.nextMs());
    }
    return { kind: 'stopped' };
  }

  /** Starts a new holder, which holds nothing. Not while a call is in flight. */
  beginAnew(): void {
    this.#holder = newName(this.#options.random);
    this.#lastSeq = 0;
  }

  /** Retries at once: the control plane is back. */
  endPause(): void {
    this.#wakeup.interrupt();
  }

  /** Ends the pause between two attempts and makes no further attempt. */
  stop(): void {
    this.#isStopped = true;
    this.#wakeup.wake();
  }

  async #attempt(body: LeaseBody): Promise<CallOutcome | 'refused' | 'unanswered'> {
    const { client, clock } = this.#options;
    const sentAtMs = clock.monotonic();
    try {
      const answer = await client.lease(body);
      if (answer === 'holder_unknown') return { kind: 'holder_unknown' };
      if (answer === 'overloaded') {
        this.#noteFailure('the control plane is overloaded');
        return 'refused';
      }
      if (!fits(answer, body)) throw new Error('the control plane granted units that were not requested');
      return { kind: 'answered', answer, sentAtMs };
    } catch (error) {
      this.#noteFailure(error);
      return 'unanswered';
    }
  }

  #noteFailure(error: unknown): void {
    const { logger, onFailure } = this.#options;
    this.#failures++;
    // Log the first of a series; /metrics counts all.
    if (!this.#isFailing) logger.warn({ err: error }, 'units could not be leased; retrying');
    this.#isFailing = true;
    onFailure();
  }
}

const newName = (random: Random): string => Buffer.from(random.bytes(16)).toString('hex');

/** The answer has one grant per ask, and no grant exceeds its ask. */
const fits = ({ grants }: LeaseAnswer, { asks }: LeaseBody): boolean =>
  grants.length === asks.length &&
  asks.every(
    ({ units_needed, units_ahead }, place) => (grants[place]?.granted ?? 0) <= units_needed + units_ahead,
  );
