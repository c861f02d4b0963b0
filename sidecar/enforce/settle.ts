import { limits } from '../../shared/model/limits.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { Random } from '../../shared/runtime/random.ts';
import { type RetryPause, retryPause } from '../../shared/runtime/retry-pause.ts';
import type {
  LookUpSettlement,
  PermitSettlement,
  SettlementAnswer,
  SuspendSettlement,
} from '../../shared/wire/settlement.ts';
import type { LeaseHolder } from '../leases/lease-holder.ts';
import type { Taken } from '../leases/taken.ts';
import { ControlPlaneError } from '../replica/control-plane-client.ts';

export type Settlement = PermitSettlement | SuspendSettlement | LookUpSettlement;

/** A settlement with all that is needed to send it, and to send it again. */
export interface PreparedSettlement {
  readonly settlement: Settlement;
  /** Of the leases that were taken from, at that moment. */
  readonly holder: string;
  /** What was taken for the decision, and hangs on the outcome. Null: nothing. */
  readonly taken: Taken | null;
}

/**
 * What a request hears. `unknown`: its time was over first, and neither its decision nor its charge may be taken for settled or for
 * not. `shed`: it was never sent, because too many are under way, or because its time was over already.
 */
export type SettlementOutcome = SettlementAnswer | { readonly kind: 'unknown' } | { readonly kind: 'shed' };

interface SettlementCount {
  readonly kind: Settlement['kind'];
  /** `committed_late`: its request was told `unknown` before, and counts among the decisions as blocked. */
  readonly outcome: SettlementOutcome['kind'] | 'committed_late';
  readonly count: number;
}

/**
 * Decisions that must be true for all sidecars before they are answered (decisions §5 and §8): sends each to the control plane until its
 * outcome is known, and sees to it that its charge is then kept, given back or passed on, exactly once.
 *
 *     sent ──answer in time──────────────────────────────> known: the request hears it
 *       │  └─no answer, or an error──pause──> sent again
 *       └──its time is over──> told `unknown` ──answer──> known: only the charge hears it
 *                                   └──the process ends──> its units stay counted until their windows end, which is the safe side
 *
 * A settlement may be repeated because the control plane knows it by the id of its record, or of its approval. A look-up changes nothing: it ends
 * with the patience of its request. One whose key a permit claims from here is sent when that permit is known, or not at all: before, it would find nothing,
 * and its request, left without the units that the permit has taken, would be refused for good instead of being answered the same (decisions §5).
 *
 * An attempt that failed may still be at work in the database, and come true after a later one was told that it cannot be, for example because
 * the gate had changed in between. Until `doubtMs` after such a failure an answer gives nothing back: it is asked for once more then.
 */
export interface Settlements {
  /** Tells `onOutcome` once, no later than `untilMs`; before it returns only where it sheds. */
  settle(
    prepared: PreparedSettlement,
    untilMs: MonotonicMillis,
    onOutcome: (outcome: SettlementOutcome) => void,
  ): void;
  /** What requests heard since the start, and what came true after they had heard that nothing is known. */
  readonly counts: Iterable<SettlementCount>;
  /** Under way now, those included that no request waits for any more. */
  readonly open: number;
  /** Nothing is sent any more, and nobody hears anything. */
  stop(): void;
}

interface SettlementsDeps {
  /** One attempt. Rejects where nothing is known of its outcome. */
  readonly send: (settlement: Settlement, holder: string) => Promise<SettlementAnswer>;
  readonly leases: Pick<LeaseHolder, 'keep' | 'giveBack' | 'passOn'>;
  /** Default: limits.settlementDoubtMs. Tests make it small. */
  readonly doubtMs?: number;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
}

export function settlements(deps: SettlementsDeps): Settlements {
  return new RepeatingSettlements(deps);
}

/** One settlement between its first attempt and its known outcome. */
interface Open extends PreparedSettlement {
  /** The idempotency key with what it is scoped to. */
  readonly key: string | null;
  readonly pause: RetryPause;
  /** Null once the request has heard something. */
  onOutcome: ((outcome: SettlementOutcome) => void) | null;
  deadline: NodeJS.Timeout | null;
  retry: NodeJS.Timeout | null;
  /** Until then an earlier attempt may still come true. */
  doubtUntilMs: number;
}

/** A key that a permit under way here claims. */
interface Claim {
  /** The newest, where there are several: it waits for the others at the control plane, so that its answer tells of all. */
  permit: Open;
  readonly lookUps: Set<Open>;
}

class RepeatingSettlements implements Settlements {
  readonly #deps: SettlementsDeps;
  readonly #doubtMs: number;
  readonly #open = new Set<Open>();
  readonly #claims = new Map<string, Claim>();
  readonly #counts = new Map<string, { -readonly [Name in keyof SettlementCount]: SettlementCount[Name] }>();

  constructor(deps: SettlementsDeps) {
    this.#deps = deps;
    this.#doubtMs = deps.doubtMs ?? limits.settlementDoubtMs;
  }

  get open(): number {
    return this.#open.size;
  }

  get counts(): Iterable<SettlementCount> {
    return this.#counts.values();
  }

  settle(
    prepared: PreparedSettlement,
    untilMs: MonotonicMillis,
    onOutcome: (outcome: SettlementOutcome) => void,
  ): void {
    const leftMs = untilMs - this.#deps.clock.monotonic();
    if (leftMs <= 0 || this.#open.size >= limits.settlementsMax) {
      if (prepared.taken !== null) this.#deps.leases.giveBack(prepared.taken);
      this.#count(prepared, 'shed');
      onOutcome({ kind: 'shed' });
      return;
    }
    const pause = retryPause(this.#deps.random, {
      firstMs: limits.retryFirstMs,
      lastMs: limits.settlementRetryLastMs,
    });
    const key = keyOf(prepared.settlement);
    const open: Open = { ...prepared, key, pause, onOutcome, deadline: null, retry: null, doubtUntilMs: 0 };
    open.deadline = setTimeout(() => this.#isLate(open), leftMs);
    this.#open.add(open);
    this.#begin(open);
  }

  #begin(open: Open): void {
    const claim = open.key === null ? undefined : this.#claims.get(open.key);
    if (open.settlement.kind === 'look_up' && claim !== undefined) {
      claim.lookUps.add(open);
      this.#hurry(claim.permit);
      return;
    }
    if (open.settlement.kind === 'permit' && open.key !== null) {
      if (claim === undefined) this.#claims.set(open.key, { permit: open, lookUps: new Set() });
      else claim.permit = open;
    }
    void this.#attempt(open);
  }

  /** Somebody waits for it, who would have made a call of his own: its pause is over. */
  #hurry(open: Open): void {
    if (open.retry === null) return;
    clearTimeout(open.retry);
    open.retry = null;
    void this.#attempt(open);
  }

  /** The permit is known, whatever its charge still waits for: who wants to know what stands behind its key asks now. */
  #endClaim(open: Open): void {
    const claim = open.key === null ? undefined : this.#claims.get(open.key);
    if (open.key === null || claim?.permit !== open) return;
    this.#claims.delete(open.key);
    for (const lookUp of claim.lookUps) this.#begin(lookUp);
  }

  stop(): void {
    for (const open of this.#open) this.#close(open);
  }

  /** Never rejects. */
  async #attempt(open: Open): Promise<void> {
    let answer: SettlementAnswer;
    try {
      answer = await this.#deps.send(open.settlement, open.holder);
    } catch (error) {
      this.#repeat(open, error);
      return;
    }
    try {
      this.#isKnown(open, answer);
    } catch (error) {
      this.#deps.logger.error({ err: error }, 'the outcome of a settlement could not be put into effect');
    }
  }

  #repeat(open: Open, error: unknown): void {
    if (!this.#open.has(open)) return;
    const isTurnedAway = error instanceof ControlPlaneError && error.isTurnedAway;
    if (!isTurnedAway) open.doubtUntilMs = this.#deps.clock.monotonic() + this.#doubtMs;
    const inMs = open.pause.nextMs();
    const { kind } = open.settlement;
    this.#deps.logger.debug({ err: error, kind, inMs }, 'a settlement got no answer and is sent again');
    this.#attemptIn(open, inMs);
  }

  #isKnown(open: Open, answer: SettlementAnswer): void {
    // A look-up that was given up, or the process ends.
    if (!this.#open.has(open)) return;
    this.#endClaim(open);
    const { settlement, taken } = open;
    if (answer.kind === 'refused') {
      this.#deps.logger.warn(
        { kind: settlement.kind, gate_id: settlement.gate_id, message: answer.message },
        'the control plane refuses to settle a decision',
      );
    }
    const doubtMs = open.doubtUntilMs - this.#deps.clock.monotonic();
    if (taken !== null && doubtMs > 0 && endOf(answer) === 'giveBack') this.#attemptIn(open, doubtMs);
    else {
      this.#close(open);
      if (taken !== null) this.#deps.leases[endOf(answer)](taken);
    }
    if (open.onOutcome === null && answer.kind === 'committed') this.#count(open, 'committed_late');
    this.#tell(open, answer);
  }

  #attemptIn(open: Open, inMs: number): void {
    open.retry = setTimeout(() => {
      open.retry = null;
      void this.#attempt(open);
    }, inMs).unref();
  }

  #isLate(open: Open): void {
    if (open.settlement.kind === 'look_up') this.#close(open);
    this.#tell(open, { kind: 'unknown' });
  }

  #tell(open: Open, outcome: SettlementOutcome): void {
    const { onOutcome } = open;
    open.onOutcome = null;
    if (onOutcome === null) return;
    this.#count(open, outcome.kind);
    onOutcome(outcome);
  }

  #close(open: Open): void {
    this.#open.delete(open);
    if (open.key !== null) this.#claims.get(open.key)?.lookUps.delete(open);
    if (open.deadline !== null) clearTimeout(open.deadline);
    if (open.retry !== null) clearTimeout(open.retry);
  }

  #count({ settlement: { kind } }: PreparedSettlement, outcome: SettlementCount['outcome']): void {
    const name = `${kind} ${outcome}`;
    const counted = this.#counts.get(name);
    if (counted !== undefined) counted.count++;
    else this.#counts.set(name, { kind, outcome, count: 1 });
  }
}

/** Scoped to passport and gate (decisions §5); without a gate to the account, which is that of the sidecar. */
const keyOf = ({ passport_id, gate_id, idempotency_key }: Settlement): string | null =>
  idempotency_key === null ? null : `${passport_id} ${gate_id} ${idempotency_key}`;

/** What becomes of the charge. */
function endOf(answer: SettlementAnswer): 'keep' | 'passOn' | 'giveBack' {
  if (answer.kind === 'committed') return 'keep';
  return answer.kind === 'suspended' && answer.is_new ? 'passOn' : 'giveBack';
}
