import { writeDigest } from '../../shared/crypto/id-digest.ts';
import { type DigestWords, idDigestWords } from '../../shared/model/id-digest.ts';
import { secondMs, type UnixMillis } from '../../shared/model/time.ts';
import { DigestTable } from '../replica/digest-table.ts';
import { settleLimits } from './limits.ts';

/**
 * What became of a proof that is used now. `full`: it cannot be told whether it was used before, or there is
 * no room to remember that it is now.
 */
export type Use = 'first' | 'replayed' | 'full';

/**
 * The proofs that this sidecar has taken and that could be taken again: bounded by count and by time.
 *
 * Times are those of the control plane, and they may jump back. A proof that has ended is forgotten a little
 * later, and one that ends before what was forgotten is not taken at all: it could have been among that.
 */
export class ProofMemory {
  readonly #table = new DigestTable();
  readonly #countMax: number;
  readonly #words = new Int32Array(idDigestWords) as DigestWords;
  /** Seconds since 1970; what ended before it may be forgotten. */
  #forgottenS = 0;

  constructor(countMax: number = settleLimits.proofsMax) {
    this.#countMax = countMax;
  }

  get size(): number {
    return this.#table.size;
  }

  /**
   * `name`: of the proof, the same for all its copies. `untilMs`: the last moment at which it is accepted.
   */
  use(name: string, untilMs: UnixMillis, nowMs: UnixMillis): Use {
    const endsAtS = Math.ceil(untilMs / secondMs);
    if (endsAtS < this.#forgottenS) return 'full';
    writeDigest(this.#words, 0, name);
    if (this.#table.get(this.#words, 0) !== 0) return 'replayed';
    const forgetS = Math.floor((nowMs - settleLimits.proofsKeptMs) / secondMs);
    this.#forget(settleLimits.proofsSweptPerUse, forgetS);
    if (this.#table.size >= this.#countMax) this.#forget(settleLimits.proofsSweptWhenFull, forgetS);
    if (this.#table.size >= this.#countMax) return 'full';
    this.#table.set(this.#words, 0, endsAtS);
    return 'first';
  }

  #forget(slots: number, beforeS: number): void {
    if (beforeS <= 0) return;
    this.#forgottenS = Math.max(this.#forgottenS, beforeS);
    this.#table.sweep(slots, beforeS);
  }
}
