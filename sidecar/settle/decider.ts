/**
 * Room `sidecar/settle`: takes checks through the section. `proofs.ts` finds out what proofs of possession
 * are worth. `asking.ts` is a check that has to ask, the host of its run; `settlements.ts` sends what the
 * control plane has to know first, `settlement-outcome.ts` says what becomes of it, `settlement-voids.ts`
 * undoes what was answered 503.
 */

import { ApiError } from '../../shared/errors/api-error.ts';
import { limits } from '../../shared/model/limits.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import { type Clock, type Moment, momentOf } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { RetryWaits } from '../../shared/runtime/retry-waits.ts';
import type { Spool } from '../attest/spool.ts';
import type { ReadyCheck } from '../decide/check.ts';
import type { Attempt } from '../decide/record.ts';
import type { CatchUp } from '../replica/catch-up.ts';
import { Asking, type AskingDeps } from './asking.ts';
import { settleLimits } from './limits.ts';
import type { Proofs } from './proofs.ts';
import { SettlementVoids } from './settlement-voids.ts';

export interface DeciderDeps extends Omit<AskingDeps, 'voids' | 'retryWaits'> {
  readonly catchUp: Pick<CatchUp, 'wait'>;
  readonly proofs: Pick<Proofs, 'settle'>;
  readonly spool: Pick<Spool, 'appendVoid'>;
  /** The total that one check waits for leases and settlements. Default: limits.quotaWaitMsMax. */
  readonly quotaWaitMs?: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Takes checks through the section, and those that have to ask from there to their answer. Nearly all go
 * straight down, in one turn of the event loop.
 *
 *     decide ──> section ──recorded─────────────────────────────> answered when the record is written
 *       ^           ├──scan_spent, catching_up──> a later turn ──┐
 *       │           ├──proof_unknown──> Proofs ──more is known──┐ │
 *       │           └──has to ask──> Asking ──units, outcomes───┤ │
 *       └──────────────────────────────────────────────────────┴─┘
 */
export class Decider {
  readonly #deps: DeciderDeps;
  readonly #asking: AskingDeps;
  readonly #voids: SettlementVoids;
  readonly #retryWaits: RetryWaits;

  constructor(deps: DeciderDeps) {
    this.#deps = deps;
    this.#voids = new SettlementVoids(deps);
    this.#retryWaits = new RetryWaits(deps, settleLimits.retries);
    this.#asking = { ...deps, voids: this.#voids, retryWaits: this.#retryWaits };
  }

  /** Voids of settlements and readings that were written. */
  get voided(): number {
    return this.#voids.count;
  }

  /** `moment`: of this very call of the event loop. Never throws. */
  decide(check: ReadyCheck, moment: Moment): void {
    this.#pass(check, moment, null);
  }

  stop(): void {
    this.#retryWaits.stop();
    this.#voids.stop();
  }

  /** `asking`: of a check that was decided before. */
  #pass(check: ReadyCheck, moment: Moment, asking: Asking | null): void {
    const { section, answers } = this.#deps;
    try {
      const passed = section.decide(check, moment);
      if (passed === 'recorded') return;
      if (passed === 'proof_unknown') this.#deps.proofs.settle(check, () => this.#again(check, asking));
      else if (typeof passed === 'string') this.#postpone(passed, () => this.#again(check, asking));
      else (asking ?? this.#ask(check, passed)).decided(passed);
    } catch (error) {
      answers.answerError(check, error);
    }
  }

  #postpone(why: 'scan_spent' | 'catching_up', again: () => void): void {
    if (why === 'scan_spent') setImmediate(again);
    else if (!this.#deps.catchUp.wait(again)) throw new ApiError('overloaded');
  }

  /** After a wait: nothing is taken or recorded for a client that has gone. */
  #again(check: ReadyCheck, asking: Asking | null): void {
    const { answers, clock } = this.#deps;
    if (answers.isWanted(check)) this.#pass(check, momentOf(clock), asking);
  }

  #ask(check: ReadyCheck, attempt: Attempt): Asking {
    const { clock, quotaWaitMs = limits.quotaWaitMsMax } = this.#deps;
    const asking: Asking = new Asking(this.#asking, check, {
      attempt,
      untilMs: (clock.monotonic() + quotaWaitMs) as MonotonicMillis,
      decideAgain: () => this.#again(check, asking),
    });
    check.learned = asking;
    return asking;
  }
}
