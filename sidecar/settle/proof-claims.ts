import { encodeBase64url } from '../../shared/crypto/base64url.ts';
import { idDigest } from '../../shared/crypto/id-digest.ts';
import { must } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import type { MonotonicMillis, UnixMillis } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { Random } from '../../shared/runtime/random.ts';
import { retryPause } from '../../shared/runtime/retry-pause.ts';
import type { ProofClaim } from '../../shared/wire/sync/proof-claim.ts';
import { settleLimits } from './limits.ts';

/** `away`: the control plane is known to be away. `late`: the time was over first, or too many wait. */
export type ClaimOutcome = 'first' | 'replayed' | 'away' | 'late';

export interface ProofClaimsDeps {
  /** One attempt. Rejects where nothing is known of its outcome. */
  readonly send: (claims: readonly ProofClaim[]) => Promise<readonly boolean[]>;
  readonly isAway: () => boolean;
  readonly clock: Pick<Clock, 'monotonic' | 'now'>;
  readonly random: Random;
  readonly logger: Logger;
}

interface OpenClaim {
  readonly claim: ProofClaim;
  readonly untilMs: MonotonicMillis;
  readonly report: (outcome: ClaimOutcome) => void;
}

/** What one call carries. */
interface Batch {
  readonly asked: readonly OpenClaim[];
  readonly used: readonly (readonly [claim: ProofClaim, untilMs: UnixMillis])[];
}

/** How often deadlines are looked at while anything is open. */
const sweepMs = 20;

/**
 * Asks the ledger whether proofs are used for the first time (contract §5, `replay: exact`). Those of one
 * turn of the event loop travel in one call, and those that come while calls are in flight in the next. A
 * call without an answer is repeated: the ledger knows a claim again. One whose time is over has used up its
 * proof all the same, and permits nothing.
 *
 * The ledger also gets the proofs that were used here without a question (`replay: sidecar`), with the next
 * call or `usedProofsPauseMs` later, so that gates with `exact` refuse them. Nobody waits for that.
 */
export class ProofClaims {
  readonly #deps: ProofClaimsDeps;
  /** All that are not answered; those that wait for a call are in the queue too. */
  readonly #open = new Set<OpenClaim>();
  #queue = new Set<OpenClaim>();
  /** Used here and not in the ledger yet, oldest first, with the last moment at which each is accepted. */
  readonly #used = new Map<ProofClaim, UnixMillis>();
  #usedTimer: NodeJS.Timeout | null = null;
  /** What was used goes now, even if nothing is asked. */
  #isUsedDue = false;
  #isStopping = false;
  #callsInFlight = 0;
  #isScheduled = false;
  #sweep: NodeJS.Timeout | null = null;
  #pauseTimer: NodeJS.Timeout | null = null;
  readonly #pause: ReturnType<typeof retryPause>;

  constructor(deps: ProofClaimsDeps) {
    this.#deps = deps;
    this.#pause = retryPause(deps.random, { firstMs: limits.retryFirstMs, lastMs: limits.leaseRetryLastMs });
  }

  /**
   * The proof with this name is used here, and accepted until `untilMs`. Beyond `usedProofsMax` that the
   * ledger does not have yet, the oldest is not sent.
   */
  use(name: string, untilMs: UnixMillis): ProofClaim {
    const claim = { proof: idDigest(name), claim: encodeBase64url(this.#deps.random.bytes(16)) };
    this.#used.set(claim, untilMs);
    if (this.#used.size > settleLimits.usedProofsMax)
      for (const oldest of this.#used.keys()) {
        this.#used.delete(oldest);
        break;
      }
    this.#usedTimer ??= setTimeout(() => {
      this.#usedTimer = null;
      this.#isUsedDue = true;
      this.#wake();
    }, settleLimits.usedProofsPauseMs);
    return claim;
  }

  /** `claim`: as `use` has returned it. Calls `report` exactly once, at `untilMs` at the latest. */
  claim(claim: ProofClaim, untilMs: MonotonicMillis, report: OpenClaim['report']): void {
    const refusal = this.#refusal();
    if (refusal !== null) {
      report(refusal);
      return;
    }
    this.#used.delete(claim);
    const open: OpenClaim = { claim, untilMs, report };
    this.#open.add(open);
    this.#queue.add(open);
    this.#sweep ??= setInterval(() => this.#endLate(), sweepMs);
    this.#wake();
  }

  /** Resolves once the ledger has what was used here, or a call has failed. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    for (const timer of [this.#pauseTimer, this.#usedTimer]) if (timer !== null) clearTimeout(timer);
    for (const open of [...this.#open]) this.#end(open, 'late');
    for (let isSent = true; isSent && this.#used.size > 0 && !this.#deps.isAway(); )
      isSent = await this.#send(this.#nextBatch());
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
      if (this.#used.size === 0) this.#isUsedDue = false;
      while (
        !this.#isStopping &&
        this.#pauseTimer === null &&
        this.#callsInFlight < settleLimits.proofCallsAtOnceMax &&
        (this.#queue.size > 0 || (this.#isUsedDue && this.#used.size > 0))
      )
        void this.#send(this.#nextBatch());
    });
  }

  #nextBatch(): Batch {
    const asked = [...this.#queue].slice(0, limits.proofClaimsPerCallMax);
    for (const open of asked) this.#queue.delete(open);
    const used: [ProofClaim, UnixMillis][] = [];
    const nowMs = this.#deps.clock.now();
    for (const each of this.#used) {
      if (asked.length + used.length === limits.proofClaimsPerCallMax) break;
      this.#used.delete(each[0]);
      if (each[1] >= nowMs) used.push(each);
    }
    return { asked, used };
  }

  /** Whether there was an answer. Never rejects. */
  async #send(batch: Batch): Promise<boolean> {
    const { asked, used } = batch;
    if (asked.length + used.length === 0) return true;
    this.#callsInFlight++;
    try {
      const claims = [...asked.map(({ claim }) => claim), ...used.map(([claim]) => claim)];
      const first = await this.#deps.send(claims);
      this.#pause.reset();
      for (const [place, open] of asked.entries())
        this.#end(open, must(first[place], 'an answer to each claim') ? 'first' : 'replayed');
      return true;
    } catch (error) {
      const count = asked.length + used.length;
      this.#deps.logger.debug({ err: error, count }, 'claims of proofs were not answered');
      this.#again(batch);
      return false;
    } finally {
      this.#callsInFlight--;
      this.#wake();
    }
  }

  #again({ asked, used }: Batch): void {
    for (const [claim, untilMs] of used) this.#used.set(claim, untilMs);
    const left = asked.filter((open) => this.#open.has(open));
    this.#queue = new Set([...left, ...this.#queue]);
    if (this.#deps.isAway()) for (const open of [...this.#queue]) this.#end(open, 'away');
    if (this.#isStopping) return;
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
