import type { UnixMillis } from '../../shared/model/time.ts';
import type { CounterKey } from '../../shared/quota/counter.ts';
import { type WindowName, windowAt } from '../../shared/quota/window.ts';
import type { LimitKind } from '../../shared/quota/window-limit.ts';

/** One limit on one kind of calendar window, for which clients race. */
export interface Cap {
  readonly name: string;
  readonly kind: LimitKind | 'standing_approval' | WalletKind;
  readonly window: WindowName;
  /** Requests, or micro-USD. */
  readonly limit: number;
  /** Whose PERMITs count. Null: at any gate, of any passport. */
  readonly gateId: string | null;
  readonly passportId: string | null;
  /** Of a cap of that kind. */
  readonly standingApprovalId?: string;
  /** Of a wallet, and then both ids above are null. */
  readonly wallet?: {
    /** As the ledger names it: a wallet, or what no child of it has set aside. */
    readonly counter: CounterKey;
    /** Those that draw on it. */
    readonly passportIds: ReadonlySet<string>;
    /** It is not used up before those ask that come last. */
    readonly isLate: boolean;
    /** Nobody else can use it. */
    readonly isReserved: boolean;
  };
}

type WalletKind = 'wallet_rate' | 'wallet_spend';

/** Units that somebody was given: one PERMIT, or the money that an approval holds. */
export interface Given {
  readonly gateId: string;
  readonly passportId: string;
  /** 0 for a held sum. */
  readonly requests: 0 | 1;
  /** 0 where the money was held by an approval before, and is listed as that. */
  readonly moneyMicroUsd: number;
  /** The window that was drawn on is one in which a moment of this span lies. */
  readonly earliestMs: number;
  readonly latestMs: number;
}

/** What may be given in one window at most: the limit, or what the ledger has given out. */
export type AllowedIn = (cap: Cap, startsAtMs: UnixMillis) => number;

export const byLimit: AllowedIn = ({ limit }) => limit;

/** A cap that was passed. */
export interface Overrun {
  readonly cap: Cap;
  readonly startsAtMs: number;
  readonly endsAtMs: number;
  readonly given: number;
  readonly allowed: number;
}

/** It counts requests; else micro-USD. */
export const isRate = ({ kind }: Cap): boolean =>
  kind === 'gate_rate' || kind === 'passport_rate' || kind === 'wallet_rate';

export const unitsOf = (cap: Cap, given: Given): number =>
  isRate(cap) ? given.requests : given.moneyMicroUsd;

export const countsFor = (
  { gateId, passportId, wallet }: Cap,
  given: Pick<Given, 'gateId' | 'passportId'>,
): boolean =>
  (gateId === null || gateId === given.gateId) &&
  (passportId === null || passportId === given.passportId) &&
  (wallet === undefined || wallet.passportIds.has(given.passportId));

export function grouped<T>(list: readonly T[], by: (each: T) => string): ReadonlyMap<string, readonly T[]> {
  const groups = new Map<string, T[]>();
  for (const each of list) {
    const group = groups.get(by(each));
    if (group === undefined) groups.set(by(each), [each]);
    else group.push(each);
  }
  return groups;
}

/**
 * Finds what counts for a cap. A long race has thousands of caps, and each of them looks
 * at its own gate, passport or passports alone.
 */
export function countedFor<G extends Pick<Given, 'gateId' | 'passportId'>>(
  given: readonly G[],
): (cap: Cap) => readonly G[] {
  const byGate = grouped(given, ({ gateId }) => gateId);
  const byPassport = grouped(given, ({ passportId }) => passportId);
  return (cap) => {
    const { gateId, passportId, wallet } = cap;
    const near =
      gateId !== null
        ? byGate.get(gateId)
        : passportId !== null
          ? byPassport.get(passportId)
          : wallet === undefined
            ? given
            : [...wallet.passportIds].flatMap((id) => byPassport.get(id) ?? []);
    return near?.filter((each) => countsFor(cap, each)) ?? [];
  };
}

/**
 * The caps that were passed, whatever window each unit was drawn from.
 *
 * A client sees when it asked and when it was answered, and a record names the time of the decision; neither
 * names the window. Near the end of a window both are compatible with two. By Hall's theorem there is a way
 * to put each unit into a window of its span, and none over its cap, only if no run of consecutive windows
 * has to hold more than it may: so every run is looked at, with the units that fit nowhere outside of it. A
 * day that does not end during the race is one such run, and exact.
 */
export function overruns(caps: readonly Cap[], given: readonly Given[], allowedIn: AllowedIn): Overrun[] {
  const counted = countedFor(given);
  return caps.flatMap((cap) => {
    const drawn = counted(cap).filter((each) => unitsOf(cap, each) > 0);
    const windows = windowsOf(cap, drawn);
    return runsOf(windows).flatMap(([first, last]): Overrun[] => {
      const [startsAtMs, endsAtMs] = [first.startsAtMs, last.endsAtMs];
      const within = drawn.filter(
        ({ earliestMs, latestMs }) => earliestMs >= startsAtMs && latestMs < endsAtMs,
      );
      const units = within.reduce((sum, each) => sum + unitsOf(cap, each), 0);
      const allowed = windows
        .filter((window) => window.startsAtMs >= startsAtMs && window.endsAtMs <= endsAtMs)
        .reduce((sum, window) => sum + allowedIn(cap, window.startsAtMs), 0);
      return units > allowed ? [{ cap, startsAtMs, endsAtMs, given: units, allowed }] : [];
    });
  });
}

type Window = ReturnType<typeof windowAt>;

/** Every window in which something may have been given, without holes. */
function windowsOf({ window: name }: Cap, given: readonly Given[]): Window[] {
  const windows: Window[] = [];
  if (given.length === 0) return windows;
  const lastMs = given.reduce((last, { latestMs }) => Math.max(last, latestMs), 0);
  let atMs = given.reduce((first, { earliestMs }) => Math.min(first, earliestMs), Number.MAX_SAFE_INTEGER);
  while (atMs <= lastMs) {
    const window = windowAt(name, Math.floor(atMs) as UnixMillis);
    windows.push(window);
    atMs = window.endsAtMs;
  }
  return windows;
}

const runsOf = (windows: readonly Window[]): [Window, Window][] =>
  windows.flatMap((first, place) => windows.slice(place).map((last): [Window, Window] => [first, last]));
