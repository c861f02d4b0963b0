import { limits } from '../../shared/model/limits.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { Random } from '../../shared/runtime/random.ts';
import { retryPause } from '../../shared/runtime/retry-pause.ts';
import { makeWakeup } from '../../shared/runtime/wakeup.ts';
import type { LeaseAnswer, LeaseCall } from '../../shared/wire/lease-call.ts';

/** A lease call without its sender, which may change from one attempt to the next. */
export type LeaseBody = Omit<LeaseCall, 'sidecar_id' | 'connection_id'>;

/** The control plane, as far as leases go. */
export interface LeaseClient {
  /** The control plane is known to be away: waiting for it is pointless. */
  readonly isAway: boolean;
  /**
   * Throws if there is no usable answer within `replicaLimits.quotaCallMsMax`.
   */
  lease(body: LeaseBody): Promise<LeaseAnswer | 'holder_unknown'>;
}

export type CallOutcome =
  | { readonly kind: 'answered'; readonly answer: LeaseAnswer; readonly sentAtMs: number }
  | { readonly kind: 'holder_unknown' }
  /** `stop` came first. Units that the ledger granted stay counted until their windows end. */
  | { readonly kind: 'stopped' };

/**
 * Makes one call at a time and repeats it under the same number until it is answered. The ledger may have
 * applied an attempt whose answer was lost; a repeat gets that answer (LeaseCall).
 */
export interface LeaseCaller {
  /** 32 hex characters. */
  readonly holder: string;
  /** Attempts that were not answered since the start. */
  readonly failures: number;
  call(body: Pick<LeaseBody, 'returns' | 'asks'>): Promise<CallOutcome>;
  /** Starts a new holder, which holds nothing. Not while a call is in flight. */
  beginAnew(): void;
  /** Retries at once: the control plane is back. */
  endPause(): void;
  /** Ends the pause between two attempts and makes no further attempt. */
  stop(): void;
}

export function leaseCaller(options: {
  readonly client: LeaseClient;
  /** After each attempt without an answer. */
  readonly onFailure: () => void;
  /** Live epoch of the spool that records what is taken. Absent: the control plane has no such records. */
  readonly epoch?: () => string;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
}): LeaseCaller {
  const { client, clock, random, logger } = options;
  const newName = (): string => Buffer.from(random.bytes(16)).toString('hex');
  // Well below the time for which requests wait, so that one lost answer costs no decision.
  const pause = retryPause(random, { firstMs: limits.retryFirstMs, lastMs: limits.leaseRetryLastMs });
  const wakeup = makeWakeup();
  let holder = newName();
  let lastSeq = 0;
  let failures = 0;
  let isFailing = false;
  let isStopped = false;

  const attempt = async (body: LeaseBody): Promise<CallOutcome | null> => {
    const sentAtMs = clock.monotonic();
    try {
      const answer = await client.lease(body);
      if (answer === 'holder_unknown') return { kind: 'holder_unknown' };
      if (!fits(answer, body)) throw new Error('the control plane granted units that were not requested');
      return { kind: 'answered', answer, sentAtMs };
    } catch (error) {
      failures++;
      // Log the first of a series; /metrics counts all.
      if (!isFailing) logger.warn({ err: error }, 'units could not be leased; retrying');
      isFailing = true;
      options.onFailure();
      return null;
    }
  };

  return {
    get holder() {
      return holder;
    },
    get failures() {
      return failures;
    },
    call: async ({ returns, asks }) => {
      const spooled = options.epoch === undefined ? {} : { epoch: options.epoch() };
      const body = { holder, ...spooled, seq: ++lastSeq, returns, asks };
      while (!isStopped) {
        const outcome = await attempt(body);
        if (outcome !== null) {
          if (isFailing) logger.info({}, 'units can be leased again');
          isFailing = false;
          pause.reset();
          return outcome;
        }
        if (!isStopped) await wakeup.sleep(pause.nextMs());
      }
      return { kind: 'stopped' };
    },
    beginAnew: () => {
      holder = newName();
      lastSeq = 0;
    },
    endPause: wakeup.interrupt,
    stop: () => {
      isStopped = true;
      wakeup.wake();
    },
  };
}

/** The answer has one grant per ask, and no grant exceeds its ask. */
const fits = ({ grants }: LeaseAnswer, { asks }: LeaseBody): boolean =>
  grants.length === asks.length &&
  asks.every(
    ({ units_needed, units_ahead }, place) => (grants[place]?.granted ?? 0) <= units_needed + units_ahead,
  );
