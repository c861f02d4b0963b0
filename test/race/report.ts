import type { UnixMillis } from '../../shared/model/time.ts';
import { windowAt } from '../../shared/quota/window.ts';
import { textTable } from '../support/base/text-table.ts';
import type { Answers } from './answers.ts';
import { type Cap, countedFor, type Given, grouped, isRate, type Overrun, unitsOf } from './caps.ts';
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
  const permitted = [...permits.values()].map((permit) => ({
    ...permit,
    requests: 1 as const,
    moneyMicroUsd: permit.moneyMicroUsd ?? 0,
    earliestMs: permit.timestampMs,
    latestMs: permit.timestampMs,
  }));
  const [permitsOf, givenTo] = [countedFor(permitted), countedFor(given)];
  const rowsOf = grouped(ledger, ({ counter, name }) => `${counter} ${name}`);
  return caps.flatMap((cap) => {
    const ofCap = rowsOf.get(`${counterOf(cap)} ${cap.window}`) ?? [];
    const [permitsOfCap, givenOfCap] = [permitsOf(cap), givenTo(cap)];
    return ofCap.map(({ startsAtMs, leased }): UsedWindow => {
      const { endsAtMs } = windowAt(cap.window, startsAtMs as UnixMillis);
      const isIn = (atMs: number) => atMs >= startsAtMs && atMs < endsAtMs;
      const sum = (of: readonly Given[]) => of.reduce((total, each) => total + unitsOf(cap, each), 0);
      const inWindow = permitsOfCap.filter(({ timestampMs }) => isIn(timestampMs));
      const told = inWindow.filter(({ attestationId }) => answers.permits.has(attestationId));
      const used = sum(givenOfCap.filter((each) => isIn(each.earliestMs) || isIn(each.latestMs)));
      return {
        cap,
        startsAtMs,
        answered: sum(told),
        recorded: sum(inWindow),
        leased,
        stranded: Math.max(0, leased - used),
      };
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
  return textTable(all, 2).map((line) => `  ${line}`);
}

export const overrunLine = ({ cap, startsAtMs, endsAtMs, given, allowed }: Overrun): string =>
  `${cap.name}: ${show(cap, given)} given where ${show(cap, allowed)} may be, from ${new Date(startsAtMs).toISOString()} to ${new Date(endsAtMs).toISOString()} (${[cap.gateId, cap.passportId].filter((id) => id !== null).join(', ') || 'a wallet'})`;

const show = (cap: Cap, units: number): string =>
  isRate(cap) ? String(units) : `$${(units / 1e6).toFixed(2)}`;
