import { must, unreachable } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { Random } from '../../shared/runtime/random.ts';
import type { LeaseAnswer } from '../../shared/wire/sync/lease-call.ts';
import type { Shortage } from './held-view.ts';
import type { HeldWindow } from './held-window.ts';
import { type CallOutcome, LeaseCaller, type LeaseClient } from './lease-caller.ts';
import { quotaLimits } from './limits.ts';
import { gatherCall, leaseRequestOf, lookUpOf, type NextCall, returnOf } from './next-call.ts';
import { type SpooledTakes, Succession } from './succession.ts';
import {
  type AskOutcome,
  away,
  eachNeed,
  granted,
  isCovered,
  lacksMoney,
  late,
  outcomeOf,
  type WaitingRequest,
  WaitQueue,
} from './wait-queue.ts';
import type { NewsMark, WalletPaths } from './wallet-paths.ts';

export interface LeaseCallsDeps extends SpooledTakes {
  readonly client: LeaseClient;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  /** Every known window, with or without units. */
  readonly windows: () => Iterable<HeldWindow>;
  readonly wallets: WalletPaths;
}

/**
 * The traffic between leases and the ledger. One call at a time carries the needs of waiters, renews low
 * leases and returns idle units; its answer is distributed to the waiters.
 *
 *     idle ──a request waits, a lease runs low, units are idle──> scheduled ──end of the turn──> calling ──answer──> idle, or scheduled again
 *       any ──stop──> stopped, once the remaining units are returned
 */
export class LeaseCalls {
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #client: LeaseClient;
  readonly #caller: LeaseCaller;
  readonly #windows: () => Iterable<HeldWindow>;
  readonly #succession: Succession;
  readonly #wallets: WalletPaths;
  readonly #queue: WaitQueue;
  /** Windows that run low; the next call leases ahead for them. */
  readonly #low = new Set<HeldWindow>();
  /** Idle units that go back with the next call. */
  readonly #surplus = new Map<HeldWindow, number>();
  /** Windows that may hold units; the sweep visits only these. */
  readonly #granted = new Set<HeldWindow>();
  readonly #sweep: NodeJS.Timeout;
  #calls = 0;
  #asks = 0;
  #refused = 0;
  #unavailable = 0;
  /** The next call is made at the end of this turn. */
  #isScheduled = false;
  /** Runs until a dry window may be asked about again. */
  #dryTimer: NodeJS.Timeout | null = null;
  #inFlight: Promise<void> | null = null;
  #isStopping = false;

  constructor(deps: LeaseCallsDeps) {
    this.#clock = deps.clock;
    this.#logger = deps.logger;
    this.#windows = deps.windows;
    this.#wallets = deps.wallets;
    this.#client = deps.client;
    this.#succession = new Succession(deps);
    this.#caller = new LeaseCaller({ ...deps, onFailure: () => this.#dismissIfAway() });
    this.#queue = new WaitQueue(deps.clock, (waiter) =>
      this.#answer(waiter, waiter.refused ?? this.#without),
    );
    this.#sweep = setInterval(() => this.#findSurplus(), limits.leaseSweepMs);
    this.#sweep.unref();
  }

  get holder(): string {
    return this.#caller.holder;
  }

  get counts() {
    return {
      calls: this.#calls,
      failures: this.#caller.failures,
      asks: this.#asks,
      refused: this.#refused,
      unavailable: this.#unavailable,
      waiting: this.#queue.size,
    };
  }

  endPause(): void {
    this.#caller.endPause();
  }

  /** Leases more before a low lease runs out. */
  renew(window: HeldWindow): void {
    if (this.#low.has(window)) return;
    this.#low.add(window);
    this.#wake();
  }

  /**
   * After units were given back here: they may be the last of their window, so spare ones go back at once.
   */
  returnSpare(window: HeldWindow): void {
    const { spare } = window.lease;
    if (spare === 0) return;
    this.#surplus.set(window, spare);
    this.#wake();
  }

  /** Answers exactly once, and never before this returns. */
  ask(waiter: WaitingRequest): void {
    this.#asks++;
    let hasRoom = this.#queue.size < quotaLimits.leaseWaitersMax && !this.#isStopping;
    eachNeed(waiter, (window) => {
      if (window.isForgotten) hasRoom = false;
    });
    if (!hasRoom || this.#client.isAway) {
      this.#unavailable++;
      const outcome = this.#without;
      setImmediate(() => this.#notify(waiter, outcome));
      return;
    }
    this.#queue.add(waiter);
    this.#wake();
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    clearInterval(this.#sweep);
    if (this.#dryTimer !== null) clearTimeout(this.#dryTimer);
    this.#dismissAll();
    let timer: NodeJS.Timeout | undefined;
    const timeIsOver = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, quotaLimits.leaseStopMsMax);
    });
    await Promise.race([this.#giveAllBack(), timeIsOver]);
    clearTimeout(timer);
    this.#caller.stop();
  }

  async #giveAllBack(): Promise<void> {
    await this.#inFlight;
    const nowMs = this.#clock.monotonic();
    this.#gatherAll(nowMs);
    while (this.#surplus.size > 0) await this.#send(gatherCall([], noWindow, this.#surplus, nowMs));
  }

  /** All that is available goes back with the next calls. */
  #gatherAll(nowMs: number): void {
    this.#surplus.clear();
    for (const window of this.#granted) {
      window.lease.endIfOver(nowMs);
      if (window.lease.available > 0) this.#surplus.set(window, window.lease.available);
    }
  }

  /**
   * Schedules a call at the end of this turn, so that the needs of all its requests travel together. While a
   * call is in flight, its end does this.
   */
  #wake(): void {
    if (this.#isScheduled || this.#inFlight !== null || this.#isStopping) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      // A waiter answered at the start of a call may have asked again before that call was in flight.
      if (!this.#isStopping && this.#inFlight === null) this.#callNext();
    });
  }

  #callNext(): void {
    const nowMs = this.#clock.monotonic();
    this.#serve(nowMs);
    if (this.#succession.isLeaving) this.#leave(nowMs);
    const call = this.#succession.isLeaving
      ? gatherCall([], noWindow, this.#surplus, nowMs)
      : gatherCall(this.#queue.all(), this.#low, this.#surplus, nowMs);
    if (call.dryUntilMs !== null) this.#wakeIn(call.dryUntilMs - nowMs);
    if (call.returns.size === 0) this.#notifyRefused();
    const isEmpty = call.asks.size === 0 && call.returns.size === 0 && call.lookUps.size === 0;
    if (isEmpty && !this.#succession.isUnannounced) return;
    this.#inFlight = this.#send(call).finally(() => {
      this.#inFlight = null;
      this.#wake();
    });
  }

  #wakeIn(pauseMs: number): void {
    this.#dryTimer ??= setTimeout(() => {
      this.#dryTimer = null;
      this.#wake();
    }, pauseMs);
  }

  /** Answers waiters whose units have become available meanwhile. */
  #serve(nowMs: number): void {
    for (const waiter of [...this.#queue.all()]) {
      eachNeed(waiter, ({ lease }) => lease.endIfOver(nowMs));
      if (isCovered(waiter)) this.#answer(waiter, granted);
    }
  }

  /** Never rejects. */
  async #send(call: NextCall): Promise<void> {
    const windows = [...call.asks.keys(), ...call.returns.keys()];
    for (const window of windows) window.isInCall = true;
    const asked = this.#wallets.mark(this.#clock.monotonic());
    const wallets = Array.from(call.lookUps.values(), lookUpOf);
    const outcome = await this.#caller.call({
      asks: Array.from(call.asks.values(), leaseRequestOf),
      returns: Array.from(call.returns, returnOf),
      ...(wallets.length > 0 && { wallets }),
    });
    for (const window of windows) window.isInCall = false;
    try {
      if (outcome.kind === 'answered') this.#learnWallets(call, outcome.answer, asked);
      this.#applyOutcome(call, outcome);
    } catch (error) {
      this.#logger.error({ err: error }, 'a lease violated an invariant; all leases are dropped');
      this.#dropAll();
    }
  }

  #applyOutcome(call: NextCall, outcome: CallOutcome): void {
    switch (outcome.kind) {
      case 'answered':
        this.#calls++;
        this.#succession.answered();
        this.#applyAnswer(call, outcome.answer, outcome.sentAtMs);
        return;
      case 'holder_unknown':
        this.#logger.warn(
          {},
          'the control plane has no record of the leases of this process; they are dropped',
        );
        this.#dropAll();
        return;
      case 'stopped':
        return;
      default:
        unreachable(outcome);
    }
  }

  /** A passport that the control plane does not know gets nothing, as if it were late. */
  #learnWallets(call: NextCall, { wallets = [] }: LeaseAnswer, asked: NewsMark): void {
    for (const [place, passportId] of [...call.lookUps.keys()].entries()) {
      const levels = wallets[place] ?? null;
      if (levels !== null) this.#wallets.set(passportId, levels, asked);
    }
  }

  #applyAnswer(call: NextCall, { grants }: LeaseAnswer, sentAtMs: number): void {
    const nowMs = this.#clock.monotonic();
    for (const [window, returning] of call.returns) window.lease.endReturn(returning);
    this.#notifyRefused();
    /** Windows in which the ledger had less than was needed. */
    const dry = new Map<HeldWindow, UnixMillis>();
    /** Windows without a limit at the control plane: one side has a newer configuration. */
    const unknown = new Set<HeldWindow>();
    for (const [place, ask] of [...call.asks.values()].entries()) {
      const grant = must(grants[place], 'an answer has a grant for each ask');
      const { window, unitsNeeded, unitsAhead } = ask;
      const { granted: units, leased, lent, starts_at_ms: startsAtMs, ends_at_ms: endsAtMs } = grant;
      const times = { startsAtMs, endsAtMs, leftMs: grant.left_ms, sentAtMs };
      const wasHeld = window.lease.startsAtMs === startsAtMs;
      const given = { granted: units, leased, ...(lent === undefined ? {} : { lent }) };
      window.lease.grant({ ...given, ...times, unitsNeeded, unitsAhead }, nowMs);
      if (window.lease.startsAtMs === startsAtMs) {
        window.leaseId = grant.lease_id ?? (wasHeld ? window.leaseId : null);
      }
      this.#granted.add(window);
      if (grant.limit === null) {
        unknown.add(window);
        this.#forgetWallet(window);
      } else if (units < unitsNeeded) dry.set(window, startsAtMs);
      window.askAgainAtMs =
        units < unitsNeeded ? nowMs + quotaLimits.leaseDryPauseMs : Number.NEGATIVE_INFINITY;
    }
    const decided = call.waiters.filter((waiter) => this.#dealOut(waiter, dry, unknown));
    for (const waiter of decided) eachNeed(waiter, (window) => this.#sendBack(window, call));
    if (this.#surplus.size === 0) this.#notifyRefused();
  }

  /** Of a wallet: its passport may have been moved, so other passports have to show that they draw on it. */
  #forgetWallet(window: HeldWindow): void {
    const { wallet, passport_id: passportId } = window.name;
    if (wallet === undefined || passportId === null) return;
    window.isOfNoPassport = true;
    this.#wallets.forget(passportId);
  }

  /** False: the waiter keeps waiting, or has left the queue. */
  #dealOut(waiter: WaitingRequest, dry: Shortage, unknown: ReadonlySet<HeldWindow>): boolean {
    if (!this.#queue.has(waiter)) return false;
    const outcome = outcomeOf(waiter, dry, unknown);
    if (outcome?.kind === 'refused' && lacksMoney(waiter, dry)) waiter.refused = outcome;
    else if (outcome !== null) this.#answer(waiter, outcome);
    return outcome !== null;
  }

  /**
   * Returns units leased for a request that then did not take them: another window had too little, or the
   * request waits for a person. So a later request, on any sidecar, finds them in the ledger.
   */
  #sendBack(window: HeldWindow, { asks }: NextCall): void {
    const { spare } = window.lease;
    if (spare > 0 && asks.has(window)) this.#surplus.set(window, spare);
  }

  /**
   * Only after units leased for them in vain are returned, so that their clients find those on other
   * sidecars.
   */
  #notifyRefused(): void {
    for (const waiter of [...this.#queue.all()]) {
      if (waiter.refused !== null) this.#answer(waiter, waiter.refused);
    }
  }

  /**
   * Starts a new holder: earlier leases and charges no longer count here, and waiters are asked for again.
   */
  #dropAll(): void {
    for (const window of this.#windows()) window.lease.drop();
    this.#low.clear();
    this.#surplus.clear();
    this.#granted.clear();
    this.#caller.beginAnew();
    this.#succession.begin(this.#clock.monotonic());
  }

  /** Outcome of a request that gets no answer about its units. */
  get #without(): AskOutcome {
    return this.#client.isAway ? away : late;
  }

  /** Waiting is pointless while the control plane is away. The call in flight is retried until it is back. */
  #dismissIfAway(): void {
    if (this.#client.isAway) this.#dismissAll();
  }

  #dismissAll(): void {
    for (const waiter of [...this.#queue.all()]) this.#answer(waiter, waiter.refused ?? this.#without);
  }

  /**
   * What is available goes back, and what settlements have reserved is theirs until they end: within
   * `limits.quotaWaitMsMax`, because nothing is granted to this holder any more.
   */
  #leave(nowMs: number): void {
    this.#gatherAll(nowMs);
    if (this.#surplus.size > 0) return;
    for (const { reserved } of this.#granted) if (reserved > 0) return;
    this.#logger.info({}, 'the spool has lost records; units are leased under another name from now on');
    this.#dropAll();
  }

  #findSurplus(): void {
    const nowMs = this.#clock.monotonic();
    for (const window of this.#granted) {
      const { lease } = window;
      lease.plan(nowMs);
      const idle = lease.takeSurplus(nowMs);
      if (idle > 0) this.#surplus.set(window, idle);
      else if (window.isForgettable) this.#granted.delete(window);
    }
    if (this.#succession.sweep(nowMs) || this.#surplus.size > 0) this.#wake();
  }

  #answer(waiter: WaitingRequest, outcome: AskOutcome): void {
    this.#queue.remove(waiter);
    if (outcome.kind === 'refused') this.#refused++;
    if (outcome.kind === 'away' || outcome.kind === 'late') this.#unavailable++;
    this.#notify(waiter, outcome);
  }

  /** Isolate callbacks: one request's exception must not reach the others. */
  #notify({ onOutcome }: WaitingRequest, outcome: AskOutcome): void {
    try {
      onOutcome(outcome);
    } catch (error) {
      this.#logger.error({ err: error }, 'a request could not be resumed after its wait for units');
    }
  }
}

const noWindow = new Set<HeldWindow>();
