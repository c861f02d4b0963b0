import { LRUCache } from 'lru-cache';
import type { AccountId } from '../../shared/model/ids.ts';
import { hourMs } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';

/**
 * Log lines about receipts whose records are not as they say, for each account that shows them: whoever holds
 * one such receipt may show it without end, and must not hide what others show.
 */
export class ReceiptLines {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #accounts = new LRUCache<AccountId, Budget>({ max: accountsMax });

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  /** Number of lines left out since the account's last one. Null: this one is left out too. */
  take(accountId: AccountId): number | null {
    const nowMs = this.#clock.monotonic();
    const budget = this.#accounts.get(accountId) ?? { beganAtMs: nowMs, lines: 0, leftOut: 0 };
    this.#accounts.set(accountId, budget);
    if (nowMs - budget.beganAtMs >= hourMs) {
      budget.beganAtMs = nowMs;
      budget.lines = 0;
    }
    if (budget.lines === linesPerHourMax) {
      budget.leftOut += 1;
      return null;
    }
    budget.lines += 1;
    const { leftOut } = budget;
    budget.leftOut = 0;
    return leftOut;
  }
}

interface Budget {
  beganAtMs: number;
  lines: number;
  leftOut: number;
}

/** Enough to find out what is wrong: a record that is missing stays so. */
const linesPerHourMax = 20;

/** About 100 KB. One that is forgotten begins anew. */
const accountsMax = 1_000;
