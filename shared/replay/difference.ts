import type { DecisionReason, Outcome } from '../model/decision.ts';
import { type MicroUsd, renderUsd } from '../model/money.ts';
import { dayMs, hourMs, minuteMs, renderTime, type UnixMillis } from '../model/time.ts';

/** What a policy says to one request. */
export interface Verdict {
  readonly outcome: Outcome;
  readonly reason: DecisionReason | null;
  /** The id of the condition that decided; null: none did. */
  readonly condition: string | null;
}

/** A decision on record, and what another policy says to its request. */
export interface DecidedTwice {
  readonly id: string;
  readonly timestampMs: UnixMillis;
  readonly live: Verdict;
  /** `undecided`: why the records do not say it, a word of a closed list. */
  readonly other: Verdict | { readonly undecided: string };
  readonly amountMicroUsd: MicroUsd | null;
  /** Null: no passport was verified. */
  readonly agentId: string | null;
  readonly permissionKey: string | null;
}

interface Count {
  readonly count: number;
  /** Of the requests that named an amount. */
  readonly amount_usd: number;
}

/** At most `namedMax` of them, those with the most differences first. */
interface Named<Row> {
  readonly named: readonly (Row & Count)[];
  /** All that are not named, together. */
  readonly others: Count;
}

/**
 * How a policy differs from the live one over a time. `decisions` is the sum of `same`, of the counts of
 * `different` and of those of `undecided`. Same is who gets the same answer, be it for another reason.
 */
export interface DifferenceReport {
  readonly decisions: number;
  readonly same: number;
  /** Most frequent first. `reason` and `condition`: of the answer that is no PERMIT, of two the other one. */
  readonly different: readonly (Count & {
    readonly from: Outcome;
    readonly to: Outcome;
    readonly reason: DecisionReason | null;
    readonly condition: string | null;
  })[];
  readonly by_agent: Named<{ readonly agent_id: string | null }>;
  readonly by_permission: Named<{ readonly permission_key: string | null }>;
  /** Steps of `step_s` from `at`, those without a decision left out. `blocked`: only by the other policy. */
  readonly over_time: {
    readonly step_s: number;
    readonly steps: readonly {
      readonly at: string;
      readonly decisions: number;
      readonly different: number;
      readonly blocked: number;
    }[];
  };
  /** Ids of the newest records that differ, newest first. */
  readonly examples: readonly string[];
  readonly undecided: readonly { readonly cause: string; readonly count: number }[];
  readonly from: string;
  readonly until: string;
}

/** So many agents, permissions and examples are named: a page of a list. */
const namedMax = 100;
/** So many are counted one by one, about 1 MB of them; whoever comes later is among the others. */
const countedMax = 10_000;
/** So many kinds with their conditions; later ones are counted without (a passport names its own). */
const kindsMax = 1000;
const stepsMax = 100;

const stepsMs = [
  ...[1, 5, 15].map((minutes) => minutes * minuteMs),
  ...[1, 3, 6, 12].map((hours) => hours * hourMs),
  ...[1, 7, 30, 365].map((days) => days * dayMs),
];

interface Tally {
  count: number;
  microUsd: number;
}

interface Example {
  readonly id: string;
  readonly timestampMs: UnixMillis;
}

interface Kind extends Tally {
  readonly from: Outcome;
  readonly to: Outcome;
  readonly reason: DecisionReason | null;
  readonly condition: string | null;
}

interface Step {
  decisions: number;
  different: number;
  blocked: number;
}

const addTo = (tally: Tally, amount: MicroUsd | null): void => {
  tally.count += 1;
  // A larger sum would be no exact integer.
  tally.microUsd = Math.min(tally.microUsd + (amount ?? 0), Number.MAX_SAFE_INTEGER);
};

const countOf = ({ count, microUsd }: Tally): Count => ({
  count,
  amount_usd: renderUsd(microUsd as MicroUsd),
});

const mostFirst = (one: Tally, other: Tally): number =>
  other.count - one.count || other.microUsd - one.microUsd;

/** Counts by a name, in bounded memory. A name is counted from its first difference on, or not at all. */
class TallyByName {
  readonly #tallies = new Map<string | null, Tally>();
  readonly #others: Tally = { count: 0, microUsd: 0 };

  add(name: string | null, amount: MicroUsd | null): void {
    let tally = this.#tallies.get(name);
    if (tally === undefined && this.#tallies.size < countedMax) {
      tally = { count: 0, microUsd: 0 };
      this.#tallies.set(name, tally);
    }
    addTo(tally ?? this.#others, amount);
  }

  report<Row>(rowOf: (name: string | null) => Row): Named<Row> {
    const sorted = [...this.#tallies].sort(([, one], [, other]) => mostFirst(one, other));
    const others = { ...this.#others };
    for (const [, { count, microUsd }] of sorted.slice(namedMax)) {
      others.count += count;
      others.microUsd = Math.min(others.microUsd + microUsd, Number.MAX_SAFE_INTEGER);
    }
    return {
      named: sorted.slice(0, namedMax).map(([name, tally]) => ({ ...rowOf(name), ...countOf(tally) })),
      others: countOf(others),
    };
  }
}

/**
 * Adds up in what two policies differ: the report of a shadow and of a backtest. Decisions may come in any
 * order. Memory: at most 3 MB, however many they are.
 */
export class Difference {
  readonly #fromMs: UnixMillis;
  readonly #untilMs: UnixMillis;
  readonly #stepMs: number;
  #decisions = 0;
  #same = 0;
  readonly #kinds = new Map<string, Kind>();
  readonly #agents = new TallyByName();
  readonly #permissions = new TallyByName();
  readonly #undecided = new Map<string, number>();
  readonly #steps = new Map<number, Step>();
  #examples: Example[] = [];

  /** The time that the report is about: from `fromMs`, before `untilMs`. */
  constructor({ fromMs, untilMs }: { readonly fromMs: UnixMillis; readonly untilMs: UnixMillis }) {
    this.#fromMs = fromMs;
    this.#untilMs = untilMs;
    const leastMs = (untilMs - fromMs) / (stepsMax - 1);
    this.#stepMs = stepsMs.find((stepMs) => stepMs >= leastMs) ?? Math.ceil(leastMs / dayMs) * dayMs;
  }

  add({ id, timestampMs, live, other, amountMicroUsd, agentId, permissionKey }: DecidedTwice): void {
    this.#decisions += 1;
    const step = this.#stepAt(timestampMs);
    step.decisions += 1;
    if ('undecided' in other) {
      this.#undecided.set(other.undecided, (this.#undecided.get(other.undecided) ?? 0) + 1);
      return;
    }
    if (live.outcome === other.outcome) {
      this.#same += 1;
      return;
    }
    step.different += 1;
    if (other.outcome === 'BLOCK') step.blocked += 1;
    addTo(this.#kindOf(live, other), amountMicroUsd);
    this.#agents.add(agentId, amountMicroUsd);
    this.#permissions.add(permissionKey, amountMicroUsd);
    this.#examples.push({ id, timestampMs });
    if (this.#examples.length >= 2 * namedMax) this.#examples = this.#newest();
  }

  report(): DifferenceReport {
    return {
      decisions: this.#decisions,
      same: this.#same,
      different: [...this.#kinds.values()]
        .sort(mostFirst)
        .map(({ from, to, reason, condition, ...tally }) => ({
          from,
          to,
          reason,
          condition,
          ...countOf(tally),
        })),
      by_agent: this.#agents.report((agentId) => ({ agent_id: agentId })),
      by_permission: this.#permissions.report((key) => ({ permission_key: key })),
      over_time: {
        step_s: this.#stepMs / 1000,
        steps: [...this.#steps]
          .sort(([one], [other]) => one - other)
          .map(([place, step]) => ({ at: renderTime((place * this.#stepMs) as UnixMillis), ...step })),
      },
      examples: this.#newest().map(({ id }) => id),
      undecided: [...this.#undecided]
        .map(([cause, count]) => ({ cause, count }))
        .sort((one, other) => other.count - one.count),
      from: renderTime(this.#fromMs),
      until: renderTime(this.#untilMs),
    };
  }

  #kindOf(live: Verdict, other: Verdict): Kind {
    const { reason, condition } = other.outcome === 'PERMIT' ? live : other;
    const known = this.#kinds.get(`${live.outcome} ${other.outcome} ${reason} ${condition}`);
    if (known !== undefined) return known;
    const named = this.#kinds.size < kindsMax ? condition : null;
    const key = `${live.outcome} ${other.outcome} ${reason} ${named}`;
    const kind = this.#kinds.get(key) ?? {
      from: live.outcome,
      to: other.outcome,
      reason,
      condition: named,
      count: 0,
      microUsd: 0,
    };
    this.#kinds.set(key, kind);
    return kind;
  }

  /** A time outside of the report, of a clock that differs, counts at its nearer end. */
  #stepAt(timestampMs: UnixMillis): Step {
    const atMs = Math.max(this.#fromMs, Math.min(timestampMs, this.#untilMs));
    const place = Math.floor(atMs / this.#stepMs);
    const step = this.#steps.get(place) ?? { decisions: 0, different: 0, blocked: 0 };
    this.#steps.set(place, step);
    return step;
  }

  /** Of two with one time the later id is newer. */
  #newest(): Example[] {
    return [...this.#examples]
      .sort((one, other) => other.timestampMs - one.timestampMs || (one.id < other.id ? 1 : -1))
      .slice(0, namedMax);
  }
}
