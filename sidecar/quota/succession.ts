import { quotaLimits } from './limits.ts';

/** The spool that records what is taken. */
export interface SpooledTakes {
  /** Its live epoch. Absent: the control plane has no such records. */
  readonly epoch?: () => string;
  /** Turns since the start that could not be written. */
  readonly failedTurns?: () => number;
  /** Whether a call can be made. Absent: always. */
  readonly isConnected?: () => boolean;
}

/**
 * When one holder of a sidecar follows another. What a failed write took stays taken, because its record may
 * turn up; to the ledger these are units that nothing used, and requests would wait for them until their
 * window ends. Units of an earlier holder of a sidecar are waited for by nothing. So a holder leaves when its
 * spool has lost records, and when the spool has begun another epoch, with whose end unused units return.
 *
 *     staying ──records are lost, or the epoch is another──> leaving ──it has nothing left──> begun
 *        ^                                                                                      │
 *        └──the first call of the new holder is answered── unannounced <──a sweep without one───┘
 *
 * The ledger knows a holder by its calls, so one that needs no units makes an empty one. It waits for the
 * next sweep: sooner, replicas whose clocks differ might take it for the older of the two.
 */
export class Succession {
  readonly #spool: SpooledTakes;
  #state: 'staying' | 'leaving' | 'begun' | 'unannounced';
  /** What `#now` was when the holder began. */
  #begunWith: string;
  #begunAtMs = Number.NEGATIVE_INFINITY;

  constructor(spool: SpooledTakes) {
    this.#spool = spool;
    // The first holder of a process follows the last of the process before, whose spool may be lost.
    this.#state = spool.epoch === undefined ? 'staying' : 'begun';
    this.#begunWith = this.#now;
  }

  /** The holder returns what it has, and asks for nothing. */
  get isLeaving(): boolean {
    return this.#state === 'leaving';
  }

  /** The next call is due, even if it is empty. */
  get isUnannounced(): boolean {
    return this.#state === 'unannounced';
  }

  /** True: a call is due. */
  sweep(nowMs: number): boolean {
    if (this.#state === 'begun' && this.#spool.isConnected?.() !== false) this.#state = 'unannounced';
    const hasLasted = nowMs - this.#begunAtMs >= quotaLimits.leaseHolderLastsMsMin;
    if (this.#state === 'staying' && hasLasted && this.#begunWith !== this.#now) this.#state = 'leaving';
    return this.#state !== 'staying';
  }

  /** Another holder begins: its predecessor has left, or the ledger does not know it. */
  begin(nowMs: number): void {
    this.#state = this.isLeaving ? 'begun' : 'staying';
    this.#begunWith = this.#now;
    this.#begunAtMs = nowMs;
  }

  /** A call of the holder was answered. */
  answered(): void {
    if (!this.isLeaving) this.#state = 'staying';
  }

  get #now(): string {
    return `${this.#spool.epoch?.()} ${this.#spool.failedTurns?.()}`;
  }
}
