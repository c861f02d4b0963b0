import type { Charge, QuotaView, WindowView } from '../../shared/decision/facts.ts';
import { type DrawnWindow, drawnName, ofWallets } from '../../shared/decision/windows-of.ts';
import { must } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { baseOf } from '../../shared/quota/counter.ts';
import { windowAt } from '../../shared/quota/window.ts';
import type { Transaction } from '../base/database.ts';
import { type ReadWindow, readWindows } from '../book/read-windows.ts';
import type { AskGroup, WindowAsk } from '../book/take-units.ts';
import { lentUnits } from '../book/unused-units.ts';
import { askFor, type DrawnWindows } from './drawn-windows.ts';

interface BookedWindow extends ReadWindow {
  readonly of: DrawnWindow;
  /** Units that the batch intends to take. */
  taken: number;
  /** Units lent to others and not used on record; 0 until read. */
  lent: number;
}

/**
 * The windows that a batch draws on, from one snapshot of the ledger, with the units its members intend to
 * take: each member is decided on what the ones before it leave. No guarantee: the ledger grants the sum of
 * the batch, or nothing.
 */
export class WindowBook {
  readonly #windows: ReadonlyMap<string, BookedWindow>;
  /** Number of windows with a take. */
  #takenFrom = 0;
  readonly #takenOnce = new Set<string>();

  private constructor(windows: ReadonlyMap<string, BookedWindow>) {
    this.#windows = windows;
  }

  static async read(tx: Transaction, all: readonly DrawnWindows[], nowMs: UnixMillis): Promise<WindowBook> {
    const drawn = [
      ...new Map(
        all
          .flatMap(listed)
          .flatMap(withBase)
          .map((each) => [drawnName(each), each]),
      ).values(),
    ];
    const read = await readWindows(tx, drawn, nowMs);
    return new WindowBook(
      new Map(
        drawn.map((of, place) => {
          const window = must(read[place], 'each window that was asked for is read');
          return [drawnName(of), { ...window, of, taken: 0, lent: 0 }];
        }),
      ),
    );
  }

  /** Reads how much of these windows is lent, so that views stop counting it as used. */
  async readLent(tx: Transaction, all: readonly DrawnWindows[], nowMs: UnixMillis): Promise<void> {
    const booked = [...new Set(all.flatMap(listed).map((each) => this.#at(each)))];
    const named = booked.map(({ of: { counter, window } }) => ({
      counter,
      window,
      startsAtMs: windowAt(window, nowMs).startsAtMs,
    }));
    const lent = await lentUnits(tx, named, null);
    for (const [place, each] of booked.entries()) each.lent = lent[place] ?? 0;
  }

  /** `asRead`: ignore the takes of the batch. */
  view({ spend, rate, standingApprovals, wallet }: DrawnWindows, asRead = false): QuotaView {
    const usedOf = ({ leased, taken }: BookedWindow) => (asRead ? leased : leased + taken);
    const viewOf = (drawn: DrawnWindow): WindowView => {
      const booked = this.#at(drawn);
      const base = this.#baseOf(drawn);
      const { limit, baseLimit = limit } = drawn;
      const beyond = base === null ? 0 : Math.max(baseLimit - usedOf(base), 0);
      const free = Math.max(limit - usedOf(booked), 0);
      const available = base === null ? free : Math.min(free, beyond);
      const given = base === null ? usedOf(booked) : Math.max(usedOf(booked), limit - available);
      const { endsAtMs } = booked.window;
      return { limit, available, used: Math.max(0, given - booked.lent), isFinal: true, endsAtMs };
    };
    return {
      spend: spend.map(viewOf),
      rate: rate.map(viewOf),
      standingApprovals: standingApprovals.map(({ terms, total }) => ({ terms, window: viewOf(total) })),
      wallet:
        wallet === null
          ? null
          : {
              state: wallet.isFrozen ? 'frozen' : 'known',
              levels: wallet.levels.map((level) => ({
                walletId: level.walletId,
                spend: level.spend.map(viewOf),
                rate: level.rate.map(viewOf),
              })),
            },
    };
  }

  isTakenFrom(drawn: DrawnWindows): boolean {
    return listed(drawn).some((each) => this.#at(each).taken > 0);
  }

  /**
   * `once`: copies of one request take once in total, because at most one of them is settled. False, with
   * nothing taken: one statement of the ledger cannot take from more windows.
   */
  take(drawn: DrawnWindows, charge: Charge, once: string | null): boolean {
    if (once !== null && this.#takenOnce.has(once)) return true;
    const asks = askFor(drawn, charge).map((ask) => ({ ask, booked: this.#at(ask) }));
    const added = asks.filter(({ ask, booked }) => booked.taken === 0 && ask.unitsMin > 0).length;
    if (this.#takenFrom + added > limits.quotaWindowsPerCallMax) return false;
    this.#takenFrom += added;
    if (once !== null) this.#takenOnce.add(once);
    for (const { ask, booked } of asks) {
      booked.taken += ask.unitsMin;
      const base = this.#baseOf(ask);
      if (base !== null) base.taken += ask.unitsMin;
    }
    return true;
  }

  /** Null: it is no lane of a wallet. */
  #baseOf({ counter, window }: Pick<DrawnWindow, 'counter' | 'window'>): BookedWindow | null {
    const base = baseOf(counter);
    return base === null ? null : this.#at({ counter: base, window });
  }

  #at(drawn: Pick<DrawnWindow, 'counter' | 'window'>): BookedWindow {
    return must(this.#windows.get(drawnName(drawn)), 'each window that is drawn on is in the book');
  }
}

const listed = ({ spend, rate, standingApprovals, wallet }: DrawnWindows): readonly DrawnWindow[] => [
  ...spend,
  ...rate,
  ...standingApprovals.map(({ total }) => total),
  ...ofWallets({ levels: wallet?.levels ?? [] }),
];

/** A lane of a wallet, and the counter that counts for all its lanes. */
function withBase(drawn: DrawnWindow): readonly DrawnWindow[] {
  const counter = baseOf(drawn.counter);
  return counter === null ? [drawn] : [drawn, { ...drawn, counter, limit: drawn.baseLimit ?? 0 }];
}

/** Merges these into one ask: the sum of each window, all or nothing. */
export function sumOf(asks: readonly AskGroup[]): AskGroup {
  const sums = new Map<string, WindowAsk>();
  for (const ask of asks.flat()) {
    const units = ask.unitsMin + (sums.get(drawnName(ask))?.unitsMin ?? 0);
    sums.set(drawnName(ask), { ...ask, unitsMin: units, unitsMax: units });
  }
  return [...sums.values()];
}
