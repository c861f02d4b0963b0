import type { VerifiedPassport } from '../decision/facts.ts';
import type { AttestationRecord } from '../model/attestation.ts';
import type { Outcome } from '../model/decision.ts';
import type { UnixMillis } from '../model/time.ts';
import {
  type DecidedAgain,
  decideAgain,
  type FormerPolicy,
  type OtherPolicy,
  type Past,
  type PastPassport,
  type Undecided,
  verdictOnRecord,
} from './decide-again.ts';
import { type DecidedTwice, Difference, type DifferenceReport } from './difference.ts';
import { noPastWindows, SimulatedWindows, type Units } from './simulated-windows.ts';

/** What is known of a record beside it. A word: why it is not known. */
export interface Beside {
  readonly former: FormerPolicy | Undecided;
  /** Null: no token verified. */
  readonly known: PastPassport | Undecided | null;
}

/** What a PERMIT or an approval has taken, and when: an approval holds money from when it was asked for. */
interface Taken {
  readonly moneyAtMs: UnixMillis;
  readonly requestsAtMs: UnixMillis;
  readonly live: Units;
  readonly other: Units;
}

type Again = DecidedAgain | { readonly undecided: string };

/** How a report of the other policy comes about. */
interface How {
  /** What it says to a request, by what windows and wallets have left. */
  readonly again: (past: Past, other: OtherPolicy, left: Parameters<typeof decideAgain>[2]) => Again;
  /** Whether a record is one of the report. What others took counts for limits. */
  readonly isOf: (record: AttestationRecord) => boolean;
  readonly onDecided: (decided: DecidedTwice) => void;
}

/** PERMITs and approvals whose later records find what they took, the newest: about 50 MB. */
const takenMax = 200_000;

const nothing: Units = { money: 0, requests: 0 };

/**
 * Decides the records of one gate again, by another policy, and adds up what differs. Records come in the
 * order of time, a SUSPEND at the time at which its approval was asked for. What is undecided takes from
 * limits what the decision on record took.
 */
export class Backtest {
  readonly #other: OtherPolicy;
  readonly #how: How;
  readonly #difference: Difference;
  readonly #windows: SimulatedWindows;
  /** By the id of the PERMIT or the approval. */
  readonly #taken = new Map<string, Taken>();
  readonly #drift = { mayBeFuller: false, mayBeEmptier: false };

  constructor(
    other: OtherPolicy,
    time: { readonly fromMs: UnixMillis; readonly untilMs: UnixMillis },
    how: Partial<How> = {},
  ) {
    this.#other = other;
    this.#how = { again: decideAgain, isOf: () => true, onDecided: () => undefined, ...how };
    this.#difference = new Difference(time);
    this.#windows = new SimulatedWindows(other);
  }

  /** A decision; of a SUSPEND the first record of its end, and `atMs` when it was asked for. */
  decide(record: AttestationRecord, beside: Beside, atMs: UnixMillis): void {
    const { known } = beside;
    const passport = known === null || typeof known === 'string' ? null : known.passport;
    const other = this.#again(record, beside, atMs);
    if (!this.#how.isOf(record)) return;
    const decided: DecidedTwice = {
      id: record.id,
      timestampMs: atMs,
      live: verdictOnRecord(record),
      other,
      amountMicroUsd: record.amountMicroUsd,
      agentId: passport?.agentId ?? null,
      permissionKey: record.permissionKey,
    };
    this.#difference.add(decided);
    this.#how.onDecided(decided);
  }

  /** A record with a resolution: what a PERMIT or an approval took goes back, or is another amount. */
  settle({ refersTo, resolution, amountMicroUsd, decision }: AttestationRecord, { known }: Beside): void {
    const taken = refersTo === null ? undefined : this.#taken.get(refersTo);
    if (refersTo === null || taken === undefined || known === null || typeof known === 'string') return;
    const isOfApproval = decision === 'SUSPEND';
    if (isOfApproval && resolution !== 'denied' && resolution !== 'expired') return;
    const isOver = isOfApproval || resolution === 'voided';
    const after = (units: Units): Units =>
      isOver || units === nothing ? nothing : { ...units, money: amountMicroUsd ?? 0 };
    // What the other policy has permitted at once no person ends.
    const isKept = isOfApproval && taken.other.requests > 0;
    const [live, other] = [after(taken.live), isKept ? taken.other : after(taken.other)];
    this.#draw(known.passport, {
      ...taken,
      live: less(live, taken.live),
      other: less(other, taken.other),
    });
    if (isOver) this.#taken.delete(refersTo);
    else this.#taken.set(refersTo, { ...taken, live, other });
  }

  report(): DifferenceReport {
    return this.#difference.report();
  }

  #again(record: AttestationRecord, { former, known }: Beside, atMs: UnixMillis): DecidedTwice['other'] {
    if (typeof former === 'string') return { undecided: former };
    if (typeof known === 'string') return { undecided: known };
    const { carried } = record;
    if (carried !== null && (carried.external !== null || carried.units !== null))
      return { undecided: 'members' };
    const past = { record, known, former };
    const nowhere = { windows: noPastWindows, drift: this.#drift };
    const { again: decideBy } = this.#how;
    if (known === null) return decideBy(past, this.#other, nowhere);
    const money = record.amountMicroUsd ?? 0;
    const windows = this.#windows.at({ record, passport: known.passport, former }, money, atMs);
    const again = decideBy(past, this.#other, { windows, drift: this.#drift });
    if (windows !== noPastWindows || record.walletId !== null)
      this.#take(record, known.passport, again, atMs);
    return again;
  }

  #take(record: AttestationRecord, passport: VerifiedPassport, again: Again, atMs: UnixMillis): void {
    const { decision, approvalId, amountMicroUsd } = record;
    const asked = decision !== 'BLOCK' && approvalId?.startsWith('appr_') === true ? approvalId : null;
    const held = decision === 'PERMIT' && asked !== null ? this.#taken.get(asked) : undefined;
    // Of an approval that was asked for before all records: its money is of then.
    const money = decision === 'PERMIT' && asked !== null && held === undefined ? 0 : (amountMicroUsd ?? 0);
    const live = held === undefined ? unitsOf(decision, money) : { money: 0, requests: 1 };
    const other = 'undecided' in again ? live : this.#unitsAgain(again, money, held);
    const { mayBeFuller, mayBeEmptier } = this.#drift;
    if (record.walletId !== null) {
      this.#drift.mayBeFuller = mayBeFuller || other.money > live.money || other.requests > live.requests;
      this.#drift.mayBeEmptier = mayBeEmptier || other.money < live.money || other.requests < live.requests;
    }
    const drawn = { moneyAtMs: atMs, requestsAtMs: atMs, live, other };
    this.#draw(passport, drawn);
    if (asked !== null && held !== undefined) this.#taken.delete(asked);
    const name = decision === 'SUSPEND' ? asked : record.id;
    if (name === null || decision === 'BLOCK') return;
    const before = held ?? { ...drawn, live: nothing, other: nothing };
    this.#remember(name, {
      moneyAtMs: before.moneyAtMs,
      requestsAtMs: atMs,
      live: plus(before.live, live),
      other: plus(before.other, other),
    });
  }

  /** An approval has its money already, and what was permitted in its place its request as well. */
  #unitsAgain(again: Exclude<Again, { undecided: unknown }>, money: number, held: Taken | undefined): Units {
    const units = unitsOf(again.outcome, again.decision?.amountMicroUsd ?? money);
    if (held === undefined || held.other === nothing) return units;
    return { money: 0, requests: Math.max(0, units.requests - held.other.requests) };
  }

  #draw(passport: VerifiedPassport, { moneyAtMs, requestsAtMs, live, other }: Taken): void {
    const moneyOnly = ({ money }: Units): Units => ({ money, requests: 0 });
    const requestsOnly = ({ requests }: Units): Units => ({ money: 0, requests });
    this.#windows.take(passport, moneyAtMs, { live: moneyOnly(live), other: moneyOnly(other) });
    this.#windows.take(passport, requestsAtMs, { live: requestsOnly(live), other: requestsOnly(other) });
  }

  #remember(name: string, taken: Taken): void {
    this.#taken.set(name, taken);
    if (this.#taken.size <= takenMax) return;
    const [oldest = ''] = this.#taken.keys();
    this.#taken.delete(oldest);
  }
}

const unitsOf = (outcome: Outcome, money: number): Units =>
  outcome === 'BLOCK' ? nothing : { money, requests: outcome === 'PERMIT' ? 1 : 0 };

const plus = (one: Units, another: Units): Units =>
  another === nothing ? one : { money: one.money + another.money, requests: one.requests + another.requests };

const less = (one: Units, another: Units): Units => ({
  money: one.money - another.money,
  requests: one.requests - another.requests,
});
