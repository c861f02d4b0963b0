import { encodeBase64url } from '../../shared/crypto/base64url.ts';
import { idDigest } from '../../shared/crypto/id-digest.ts';
import { must } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { Random } from '../../shared/runtime/random.ts';
import { retryPause } from '../../shared/runtime/retry-pause.ts';
import type { ProofClaim } from '../../shared/wire/proof-claim.ts';
import { settleLimits } from './limits.ts';

/** `away`: the control plane is known to be away. `late`: the time was over first, or too many wait. */
export type ClaimOutcome = 'first' | 'replayed' | 'away' | 'late';

export interface ProofClaimsDeps {
  /** One attempt. Rejects where nothing is known of its outcome. */
  readonly send: (claims: readonly ProofClaim[]) => Promise<readonly boolean[]>;
  readonly isAway: () => boolean;
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly random: Random;
  readonly logger: Logger;
}

interface OpenClaim {
  readonly claim: ProofClaim;
  readonly untilMs: MonotonicMillis;
  readonly report: (outcome: ClaimOutcome) => void;
}

/** How often deadlines are looked at while anything is open. */
const sweepMs = 20;

/**
 * Asks the ledger whether proofs are used for the first time (contract §5, `replay: exact`). Those of one
 * turn of the event loop travel in one call, and those that come while calls are in flight in the next. A
 * call without an answer is repeated: the ledger knows a claim again. One whose time is over has used up its
 * proof all the same, and permits nothing.
 */
export class ProofClaims {
  readonly #deps: ProofClaimsDeps;
  /** All that are not answered; those that wait for a call are in the queue too. */
  readonly #open = new Set<OpenClaim>();
  #queue = new Set<OpenClaim>();
  #callsInFlight = 0;
  #isScheduled = false;
  #sweep: NodeJS.Timeout | null = null;
  #pauseTimer: NodeJS.Timeout | null = null;
  readonly #pause: ReturnType<typeof retryPause>;

  constructor(deps: ProofClaimsDeps) {
    this.#deps = deps;
    this.#pause = retryPause(deps.random, { firstMs: limits.retryFirstMs, lastMs: limits.leaseRetryLastMs });
  }

  /** `name`: of the proof. Calls `report` exactly once, at `untilMs` at the latest. */
  claim(name: string, untilMs: MonotonicMillis, report: OpenClaim['report']): void {
    const refusal = this.#refusal();
    if (refusal !== null) {
      report(refusal);
      return;
    }
    const claim = { proof: idDigest(name), claim: encodeBase64url(this.#deps.random.bytes(16)) };
    const open: OpenClaim = { claim, untilMs, report };
    this.#open.add(open);
    this.#queue.add(open);
    this.#sweep ??= setInterval(() => this.#endLate(), sweepMs);
    this.#wake();
  }

  stop(): void {
    if (this.#pauseTimer !== null) clearTimeout(this.#pauseTimer);
    for (const open of [...this.#open]) this.#end(open, 'late');
  }

  #refusal(): ClaimOutcome | null {
    if (this.#deps.isAway()) return 'away';
    return this.#open.size >= settleLimits.proofClaimsMax ? 'late' : null;
  }

  #wake(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      while (
        this.#pauseTimer === null &&
        this.#callsInFlight < settleLimits.proofCallsAtOnceMax &&
        this.#queue.size > 0
      )
        void this.#send(this.#nextBatch());
    });
  }

  #nextBatch(): readonly OpenClaim[] {
    const batch = [...this.#queue].slice(0, limits.proofClaimsPerCallMax);
    for (const open of batch) this.#queue.delete(open);
    return batch;
  }

  /** Never rejects. */
  async #send(batch: readonly OpenClaim[]): Promise<void> {
    this.#callsInFlight++;
    try {
      const first = await this.#deps.send(batch.map(({ claim }) => claim));
      this.#pause.reset();
      for (const [place, isFirst] of first.entries())
        this.#end(must(batch[place], 'an answer to each claim'), isFirst ? 'first' : 'replayed');
    } catch (error) {
      this.#deps.logger.debug({ err: error, count: batch.length }, 'claims of proofs were not answered');
      this.#again(batch);
    } finally {
      this.#callsInFlight--;
      this.#wake();
    }
  }

  #again(batch: readonly OpenClaim[]): void {
    const left = batch.filter((open) => this.#open.has(open));
    if (this.#deps.isAway()) {
      for (const open of [...left, ...this.#queue]) this.#end(open, 'away');
      return;
    }
    this.#queue = new Set([...left, ...this.#queue]);
    this.#pauseTimer ??= setTimeout(() => {
      this.#pauseTimer = null;
      this.#wake();
    }, this.#pause.nextMs());
  }

  #endLate(): void {
    const nowMs = this.#deps.clock.monotonic();
    for (const open of this.#open) if (open.untilMs <= nowMs) this.#end(open, 'late');
  }

  #end(open: OpenClaim, outcome: ClaimOutcome): void {
    if (!this.#open.delete(open)) return;
    this.#queue.delete(open);
    if (this.#open.size === 0 && this.#sweep !== null) {
      clearInterval(this.#sweep);
      this.#sweep = null;
    }
    open.report(outcome);
  }
}
