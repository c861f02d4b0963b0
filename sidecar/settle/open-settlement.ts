import { assert } from '../../shared/errors/assert.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import type { TraceHeaders } from '../../shared/wire/api/trace-context.ts';
import type { Settlement, SettlementAnswer } from '../../shared/wire/sync/settlement.ts';

/** A settlement but for the time that is left to answer it, which is known when it is sent. */
export type UnsentSettlement = {
  [Kind in Settlement['kind']]: Omit<Extract<Settlement, { kind: Kind }>, 'wanted_ms'>;
}[Settlement['kind']];

/**
 * What became of a settlement, besides what the control plane answers:
 *
 *   away     the control plane is known to be away, and the settlement never arrived there
 *   shed     it never arrived: too many are open, or its time was over first
 *   unknown  it was sent, and its time was over: it may have happened, or happen yet
 *
 * Also where the control plane says that it has not begun with a call, the call has arrived, and what is in
 * between may deliver it once more: that is `unknown` in the end. Of a look-up that finds the control plane
 * away after an attempt without an answer the outcome is `away` all the same: it settles nothing.
 */
export type SettlementOutcome = SettlementAnswer | { readonly kind: 'away' | 'shed' | 'unknown' };

/** `isCertain` false: an attempt without an answer came before, and may still happen. */
export type OnSettled = (outcome: SettlementOutcome, isCertain: boolean) => void;

/**
 * What the attempts so far have left:
 *
 *   unsent     none, or only refused connections
 *   arrived    one has reached the control plane, which has not begun with it or found nothing
 *   uncertain  one got no answer, and may still happen
 */
export type Past = 'unsent' | 'arrived' | 'uncertain';

type State =
  | { readonly kind: 'refused'; readonly outcome: 'away' | 'shed' }
  | { readonly kind: 'queued' | 'sent'; readonly past: Past }
  | { readonly kind: 'over' };

/**
 * A settlement from `send` to its outcome. The past only ever grows.
 *
 *     queued ──call──> sent ──answer──> over
 *       │ ^             ├──no answer, or a look-up that has to look again──> queued
 *       │ └─────────────┘
 *       └──its time is over, or the control plane is away──> over <──at the end of the turn── refused
 */
export class OpenSettlement {
  readonly settlement: UnsentSettlement;
  readonly holder: string;
  /** The idempotency key with what it is scoped to. */
  readonly key: string | null;
  readonly untilMs: MonotonicMillis;
  readonly onSettled: OnSettled;
  /** Of the check that it is for. */
  readonly trace: TraceHeaders;
  #state: State;

  constructor(
    settlement: UnsentSettlement,
    holder: string,
    untilMs: MonotonicMillis,
    onSettled: OnSettled,
    refusal: 'away' | 'shed' | null,
    trace: TraceHeaders,
  ) {
    this.settlement = settlement;
    this.holder = holder;
    this.key = keyOf(settlement);
    this.untilMs = untilMs;
    this.onSettled = onSettled;
    this.trace = trace;
    this.#state =
      refusal === null ? { kind: 'queued', past: 'unsent' } : { kind: 'refused', outcome: refusal };
  }

  get isOver(): boolean {
    return this.#state.kind === 'over';
  }

  /** Look-ups of its key wait for it. */
  get isPermitOnItsWay(): boolean {
    const isOnItsWay = this.#state.kind === 'queued' || this.#state.kind === 'sent';
    return isOnItsWay && this.settlement.kind === 'permit' && this.key !== null;
  }

  get isUnsent(): boolean {
    return this.#state.kind === 'queued' && this.#state.past === 'unsent';
  }

  get isCertain(): boolean {
    return !('past' in this.#state && this.#state.past === 'uncertain');
  }

  noteSent(): void {
    assert(this.#state.kind === 'queued', 'only a settlement that is queued is sent');
    this.#state = { kind: 'sent', past: this.#state.past };
  }

  /** `attempt`: what the attempt that has ended leaves. */
  queueAgain(attempt: Past): void {
    assert(this.#state.kind === 'sent', 'only a settlement that was sent is sent again');
    const { past } = this.#state;
    this.#state = {
      kind: 'queued',
      past: pasts[Math.max(pasts.indexOf(past), pasts.indexOf(attempt))] ?? past,
    };
  }

  noteOver(): void {
    this.#state = { kind: 'over' };
  }

  /** Where it is over without an answer. */
  outcomeAtTheEnd(): 'unknown' | 'shed' | 'away' {
    if (this.#state.kind === 'refused') return this.#state.outcome;
    return this.isUnsent ? 'shed' : 'unknown';
  }

  /**
   * Where the control plane is away. A look-up settles nothing; what it may have read is voided by its caller
   * (`readingFateOf`).
   */
  outcomeWhileAway(): 'unknown' | 'away' {
    return this.isUnsent || this.settlement.kind === 'look_up' ? 'away' : 'unknown';
  }
}

const pasts: readonly Past[] = ['unsent', 'arrived', 'uncertain'];

/** Scoped to passport and gate (contract §5); without a gate to the account, which is that of the sidecar. */
const keyOf = ({ passport_id, gate_id, idempotency_key }: UnsentSettlement): string | null =>
  idempotency_key === null ? null : `${passport_id} ${gate_id} ${idempotency_key}`;
