import type { UnixMillis } from '../../shared/model/time.ts';
import { windowAt } from '../../shared/quota/window.ts';
import type { Answers } from './answers.ts';
import { type Cap, countsFor, type Given, isRate, type Overrun, unitsOf } from './caps.ts';
import { counterOf, type Records } from './records.ts';

/** One window of one cap, and how far it was used. */
export interface UsedWindow {
  readonly cap: Cap;
  readonly startsAtMs: number;
  /** Units of PERMITs of which a client was told. */
  readonly answered: number;
  /** Units of PERMITs on record. Sums that approvals hold and nobody has used are not among them. */
  readonly recorded: number;
  /** What the ledger has given out: recorded, held, and what is lost with a sidecar until the window ends. */
  readonly leased: number;
  /**
   * Of that, what nobody used and no approval holds. Where a PERMIT may belong to either of two windows it
   * counts in both.
   */
  readonly stranded: number;
}

/**
 * Every window of the ledger that belongs to a cap. A record counts in the window of its time: exact but for
 * the edges of a minute.
 */
export function usedWindows(
  caps: readonly Cap[],
  { permits, given, ledger }: Records,
  answers: Answers,
): UsedWindow[] {
  return caps.flatMap((cap) => {
    const counter = counterOf(cap);
    const ofCap = ledger.filter((row) => row.counter === counter && row.name === cap.window);
    return ofCap.map(({ startsAtMs, leased }): UsedWindow => {
      let answered = 0;
      let recorded = 0;
      for (const { attestationId, gateId, passportId, moneyMicroUsd, timestampMs } of permits.values()) {
        const given: Given = {
          gateId,
          passportId,
          requests: 1,
          moneyMicroUsd: moneyMicroUsd ?? 0,
          earliestMs: timestampMs,
          latestMs: timestampMs,
        };
        const isOfWindow = windowAt(cap.window, timestampMs as UnixMillis).startsAtMs === startsAtMs;
        if (!isOfWindow || !countsFor(cap, given)) continue;
        recorded += unitsOf(cap, given);
        if (answers.permits.has(attestationId)) answered += unitsOf(cap, given);
      }
      const isIn = (atMs: number) => windowAt(cap.window, atMs as UnixMillis).startsAtMs === startsAtMs;
      const used = given
        .filter((each) => countsFor(cap, each) && (isIn(each.earliestMs) || isIn(each.latestMs)))
        .reduce((sum, each) => sum + unitsOf(cap, each), 0);
      return { cap, startsAtMs, answered, recorded, leased, stranded: Math.max(0, leased - used) };
    });
  });
}

/** Units that are given out and used by nobody, requests and money. */
export function strandedLine(windows: readonly UsedWindow[]): string {
  const sum = (of: readonly UsedWindow[]) => of.reduce((total, { stranded }) => total + stranded, 0);
  const money = windows.filter(({ cap }) => !isRate(cap));
  const places = windows.filter(({ stranded }) => stranded > 0).length;
  return `Stranded, charges in doubt included: ${sum(windows.filter(({ cap }) => isRate(cap)))} requests and $${(sum(money) / 1e6).toFixed(2)}, in ${places} of ${windows.length} windows.`;
}

/** Lines of a table. */
export function capTable(windows: readonly UsedWindow[]): string[] {
  const rows = windows.map(({ cap, startsAtMs, answered, recorded, leased }) => [
    cap.name,
    `${cap.window} of ${new Date(startsAtMs).toISOString().slice(0, 16).replace('T', ' ')}`,
    show(cap, cap.limit),
    show(cap, answered),
    show(cap, recorded),
    show(cap, leased),
    `${((recorded / cap.limit) * 100).toFixed(1)} %`,
  ]);
  const all = [['cap', 'window', 'limit', 'answered', 'recorded', 'leased', 'used'], ...rows];
  const widths = all.reduce(
    (widest, row) => row.map((cell, column) => Math.max(cell.length, widest[column] ?? 0)),
    [] as number[],
  );
  return all.map((row) =>
    `  ${row.map((cell, column) => (column < 2 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0))).join('  ')}`.trimEnd(),
  );
}

export const overrunLine = ({ cap, startsAtMs, given, allowed }: Overrun): string =>
  `${cap.name}: ${show(cap, given)} given where ${show(cap, allowed)} may be, in the ${cap.window} from ${new Date(startsAtMs).toISOString()}`;

const show = (cap: Cap, units: number): string =>
  isRate(cap) ? String(units) : `$${(units / 1e6).toFixed(2)}`;
