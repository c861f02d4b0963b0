import { limits } from '../../shared/model/limits.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { SettlementVoid } from '../../shared/wire/sync/sync.ts';
import type { Spool } from '../attest/spool.ts';

export type SettlementToVoid = Omit<SettlementVoid, 'timestamp_ms'>;

interface VoidsDeps {
  readonly spool: Pick<Spool, 'appendVoid'>;
  readonly clock: Pick<Clock, 'now'>;
  readonly logger: Logger;
}

/**
 * Writes the voids of settlements to the spool, retrying each until it is written: the client was refused, so
 * a void must not be lost while the process lives. There are at most as many as settlements are open
 * (`settleLimits.settlementsMax`) in one outage of the disk.
 */
export class SettlementVoids {
  /** Written since the start. */
  count = 0;
  readonly #deps: VoidsDeps;
  readonly #timers = new Set<NodeJS.Timeout>();
  #isStopped = false;

  constructor(deps: VoidsDeps) {
    this.#deps = deps;
  }

  /**
   * `onWritten`: when it is in the spool file, or at once where it cannot be written now: the client gets its
   * answer in any case.
   */
  void(settlement: SettlementToVoid, onWritten: () => void): void {
    this.#write({ ...settlement, timestamp_ms: this.#deps.clock.now() }, onWritten);
  }

  /** What is given afterwards is tried once: what is open then is told so as the last thing. */
  stop(): void {
    this.#isStopped = true;
    for (const timer of this.#timers) clearTimeout(timer);
    if (this.#timers.size > 0) this.#isLost(this.#timers.size);
  }

  #isLost(count: number): void {
    this.#deps.logger.error({ count }, 'settlements could not be voided: the spool accepts no entry');
  }

  #write(entry: SettlementVoid, onWritten: () => void): void {
    this.#deps.spool.appendVoid(entry, {
      onWritten: () => {
        this.count++;
        onWritten();
      },
      onFailed: () => {
        if (this.#isStopped) {
          this.#isLost(1);
          onWritten();
          return;
        }
        const timer = setTimeout(() => {
          this.#timers.delete(timer);
          this.#write(entry, () => undefined);
        }, limits.voidRetryMs);
        this.#timers.add(timer);
        onWritten();
      },
    });
  }
}
