import type { Ed25519 } from '../../shared/crypto/ed25519.ts';
import { must } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { verifyLimits } from './limits.ts';
import type { VerifyPool } from './pool.ts';
import { isValidAt, rememberVerifiers, type VerifyJob } from './verify-task.ts';

/** As TokenOutcome: the last two say nothing about the signature, and may lead to no decision. */
export type SignatureOutcome = 'valid' | 'invalid' | 'overloaded' | 'unavailable';

export interface SignatureQueueDeps {
  readonly pool: Pick<VerifyPool, 'capacity' | 'verify' | 'restart'>;
  readonly ed25519: Ed25519;
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly logger: Logger;
  /** See VerifierDeps. */
  readonly inlineWhenAlone: boolean;
  /** Default `verifyLimits.verifyQueueMax`. */
  readonly queueMax?: number;
}

interface Waiting {
  readonly job: VerifyJob;
  readonly report: (outcome: SignatureOutcome) => void;
  readonly queuedAtMs: MonotonicMillis;
  isOver: boolean;
}

/**
 * Signatures that come once each, as those of proofs do: nothing is remembered. They go to the threads of the
 * pool as passports do (verifier.ts), those of one turn of the event loop together, and a lone one is checked
 * at once where the engine is fast.
 *
 *     verify ──> queued ──turn ends──> in flight ──bits──> reported
 *                  └─ waited too long ─┴─ late, or thread died ──> reported
 */
export class SignatureQueue {
  /** Signatures that were checked, and those that were not because too many waited or too long. */
  readonly counts = { checked: 0, shed: 0 };
  readonly #deps: SignatureQueueDeps;
  readonly #queueMax: number;
  readonly #verifierOf: ReturnType<typeof rememberVerifiers>;
  #queue: Waiting[] = [];
  readonly #inFlight = new Set<readonly Waiting[]>();
  #waiting = 0;
  #turnIsScheduled = false;
  #isClosed = false;

  constructor(deps: SignatureQueueDeps) {
    this.#deps = deps;
    this.#queueMax = deps.queueMax ?? verifyLimits.verifyQueueMax;
    this.#verifierOf = rememberVerifiers(deps.ed25519);
  }

  /** Calls `report` exactly once, possibly before it returns. `report` must not throw. */
  verify(job: VerifyJob, report: Waiting['report']): void {
    const refusal = this.#refusal();
    if (refusal !== null) {
      report(refusal);
      return;
    }
    this.#waiting++;
    this.#queue.push({ job, report, queuedAtMs: this.#deps.clock.monotonic(), isOver: false });
    if (this.#turnIsScheduled) return;
    this.#turnIsScheduled = true;
    setImmediate(() => {
      this.#turnIsScheduled = false;
      this.#dispatch();
    });
  }

  #refusal(): SignatureOutcome | null {
    if (this.#isClosed) return 'unavailable';
    if (this.#waiting < this.#queueMax) return null;
    this.counts.shed++;
    return 'overloaded';
  }

  /** Reports everything that waits as `unavailable`. The pool is closed by its owner. */
  close(): void {
    this.#isClosed = true;
    for (const batch of [this.#queue, ...this.#inFlight]) this.#reportAll(batch, 'unavailable');
    this.#queue = [];
  }

  #dispatch(): void {
    const [first] = this.#queue;
    if (first === undefined) return;
    const isAlone = this.#queue.length === 1 && this.#inFlight.size === 0;
    if (this.#deps.inlineWhenAlone && isAlone) {
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

  #checkInline(waiting: Waiting): void {
    const { publicKey, signedText, signature } = waiting.job;
    const verify = this.#verifierOf(publicKey);
    this.#report(
      waiting,
      verify?.(Buffer.from(signedText, 'latin1'), signature) === true ? 'valid' : 'invalid',
    );
  }

  #nextBatch(): Waiting[] {
    const oldestMs = this.#deps.clock.monotonic() - limits.decisionDeadlineMs;
    const late = this.#queue.findIndex(({ queuedAtMs }) => queuedAtMs > oldestMs);
    this.#reportAll(this.#queue.splice(0, late === -1 ? this.#queue.length : late), 'overloaded');
    return this.#queue.splice(0, verifyLimits.verifyBatchMax);
  }

  /** Never rejects. */
  async #run(batch: readonly Waiting[]): Promise<void> {
    const { pool, logger } = this.#deps;
    this.#inFlight.add(batch);
    const watch = setTimeout(() => {
      logger.error({ proofs: batch.length }, 'a verification task is late');
      this.#reportAll(batch, 'overloaded');
      pool.restart();
    }, limits.decisionDeadlineMs);
    try {
      const valid = await pool.verify(batch.map(({ job }) => job));
      for (let i = 0; i < batch.length; i++)
        this.#report(must(batch[i], 'one bit for each job'), isValidAt(valid, i) ? 'valid' : 'invalid');
    } catch (error) {
      if (!this.#isClosed) logger.error({ err: error, proofs: batch.length }, 'proofs could not be verified');
      this.#reportAll(batch, 'unavailable');
    } finally {
      clearTimeout(watch);
      this.#inFlight.delete(batch);
      this.#dispatch();
    }
  }

  #reportAll(batch: readonly Waiting[], outcome: SignatureOutcome): void {
    for (const waiting of batch) this.#report(waiting, outcome);
  }

  /** The only place that reports; what is over is reported no more. */
  #report(waiting: Waiting, outcome: SignatureOutcome): void {
    if (waiting.isOver) return;
    waiting.isOver = true;
    this.#waiting--;
    if (outcome === 'overloaded') this.counts.shed++;
    else this.counts.checked++;
    waiting.report(outcome);
  }
}
