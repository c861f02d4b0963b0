import { limits } from '../../shared/model/limits.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { Random } from '../../shared/runtime/random.ts';
import { type RetryPause, retryPause } from '../../shared/runtime/retry-pause.ts';
import { telemetryLimits } from '../../shared/telemetry/limits.ts';
import type { Span, Tracer } from '../../shared/telemetry/tracer.ts';
import {
  parseTraceparent,
  type TraceContext,
  type TraceHeaders,
  traceFields,
} from '../../shared/wire/api/trace-context.ts';
import type { Settlement, SettlementAnswer } from '../../shared/wire/sync/settlement.ts';
import { ControlPlaneError } from '../replica/control-plane-error.ts';
import { settleLimits } from './limits.ts';
import {
  type OnSettled,
  OpenSettlement,
  type Past,
  type SettlementOutcome,
  type UnsentSettlement,
} from './open-settlement.ts';
import { ServiceRate } from './service-rate.ts';

interface SettlementCount {
  readonly kind: Settlement['kind'];
  readonly outcome: SettlementOutcome['kind'];
  readonly count: number;
}

export interface SettlementsDeps {
  /**
   * One attempt. Rejects where nothing is known of its outcome. Answers are in the order of the settlements.
   * `trace`: of all of them.
   */
  readonly send: (
    settlements: readonly Settlement[],
    holder: string,
    trace: TraceContext | null,
  ) => Promise<readonly SettlementAnswer[]>;
  /** Whether the control plane is known to be away. */
  readonly isAway: () => boolean;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  /** Where calls are traced. Default: they are not. */
  readonly tracer?: Tracer | null;
}

/** How often deadlines are looked at while anything is open. */
const sweepMs = 20;

/** With so much time left none is given up, whatever the last calls took. */
const hopefulLeftMs = 0.8 * limits.quotaWaitMsMax;

/**
 * Sends the settlements of this sidecar to the control plane (contract §5, §6 and §8). Those of an
 * event-loop turn travel in one call; while `settleLimits.settlementCallsAtOnceMax` calls are in flight the
 * others gather for the next, so that a call grows with the load. A call costs the control plane as much as
 * some fifty settlements, so calls are sized to balance: each waits for its share of what was open at the
 * last answer, and takes at most that share while the others are about to come again. Otherwise a large call
 * and a small one would alternate, and the control plane would idle after the small one. With one or two
 * clients nothing waits, and nothing waits for a call that takes much longer than others did.
 *
 * How many are open follows what calls take (service-rate.ts): one that could not be settled in time is shed
 * when it comes, and one that no call can answer any more while it waits. So under any load those that were
 * taken are answered, and nothing is left to do when the load ends.
 *
 * A look-up of a key waits while a permit with that key is on its way from here: before, it would find
 * nothing.
 */
export class Settlements {
  readonly #deps: SettlementsDeps;
  readonly #open = new Set<OpenSettlement>();
  /** Those of `#open` that wait for a call, first come, first served. */
  readonly #queue = new Set<OpenSettlement>();
  /** Permits that are open, by their key. */
  readonly #permits = new Map<string, number>();
  /** Which calls that are in flight are about, with how many they are. */
  readonly #busyPassports = new Map<string, number>();
  readonly #rate: ServiceRate;
  readonly #pause: RetryPause;
  readonly #counts = new Map<string, { -readonly [Name in keyof SettlementCount]: SettlementCount[Name] }>();
  #callsInFlight = 0;
  /** When the last call was answered, its own included. */
  #openAtLastAnswer = 0;
  #lastSentAtMs = 0;
  /** What calls take, the last ones above all. */
  #usualCallMs = 0;
  #isScheduled = false;
  #pauseTimer: NodeJS.Timeout | null = null;
  #sweep: NodeJS.Timeout | null = null;
  #isStopped = false;

  constructor(deps: SettlementsDeps) {
    this.#deps = deps;
    this.#rate = new ServiceRate();
    this.#pause = retryPause(deps.random, { firstMs: limits.retryFirstMs, lastMs: limits.leaseRetryLastMs });
  }

  /** Queued and sent, now. */
  get open(): number {
    return this.#open.size;
  }

  /** Since the start. */
  get counts(): Iterable<SettlementCount> {
    return this.#counts.values();
  }

  /**
   * Calls `onSettled` exactly once, at `untilMs` at the latest, and never before this returns. `trace`: of
   * the check that it is for.
   */
  send(
    settlement: UnsentSettlement,
    holder: string,
    untilMs: MonotonicMillis,
    onSettled: OnSettled,
    trace: TraceHeaders = noTrace,
  ): void {
    const refusal = this.#refusal(untilMs);
    const open = new OpenSettlement(settlement, holder, untilMs, onSettled, refusal, trace);
    this.#open.add(open);
    if (refusal !== null) {
      setImmediate(() => this.#notify(open, { kind: refusal }));
      return;
    }
    if (open.isPermitOnItsWay && open.key !== null) {
      this.#permits.set(open.key, (this.#permits.get(open.key) ?? 0) + 1);
    }
    this.#queue.add(open);
    this.#sweep ??= setInterval(() => this.#endLate(), sweepMs);
    this.#wake();
  }

  /** Tells all that are open, and sends nothing any more. */
  stop(): void {
    this.#isStopped = true;
    if (this.#pauseTimer !== null) clearTimeout(this.#pauseTimer);
    for (const open of [...this.#open]) this.#notify(open, { kind: open.outcomeAtTheEnd() });
  }

  #refusal(untilMs: MonotonicMillis): 'away' | 'shed' | null {
    if (this.#deps.isAway()) return 'away';
    const patienceMs = untilMs - this.#deps.clock.monotonic();
    const isTooMany = this.#open.size >= this.#rate.openMax(patienceMs);
    return this.#isStopped || patienceMs <= 0 || isTooMany ? 'shed' : null;
  }

  /** At the end of this turn, so that all of it travels together. */
  #wake(): void {
    if (this.#isScheduled || this.#pauseTimer !== null || this.#isStopped) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      while (this.#mayCall() && this.#callNext());
    });
  }

  #mayCall(): boolean {
    if (this.#callsInFlight === 0) return true;
    if (this.#callsInFlight >= settleLimits.settlementCallsAtOnceMax) return false;
    if (this.#queue.size >= this.#share) return true;
    // One that waits for a lock must not hold up those that do not need it.
    return this.#deps.clock.monotonic() - this.#lastSentAtMs > 2 * this.#usualCallMs;
  }

  /** What a call waits for, and takes, of those that were open when the last one was answered. */
  get #share(): number {
    const share = Math.ceil(this.#openAtLastAnswer / settleLimits.settlementCallsAtOnceMax);
    return Math.min(share, this.#rate.callMax);
  }

  /** False: nothing waits, or only look-ups whose permit is on its way. */
  #callNext(): boolean {
    this.#shedHopeless();
    const batch = this.#nextBatch();
    const [first] = batch;
    if (first === undefined || this.#isStopped) return false;
    for (const open of batch) {
      this.#queue.delete(open);
      open.noteSent();
    }
    void this.#attempt(batch, first.holder);
    return true;
  }

  /**
   * Without those whose passport another call is about, while there are others: two transactions that add to
   * one chain go one after the other, and the second holds a connection meanwhile for as long as the database
   * is away.
   */
  #nextBatch(): readonly OpenSettlement[] {
    const apart = this.#callsInFlight === 0 ? [] : this.#batchOf((open) => !this.#isBusy(open));
    return apart.length > 0 ? apart : this.#batchOf(() => true);
  }

  #isBusy({ settlement }: OpenSettlement): boolean {
    return this.#busyPassports.has(settlement.passport_id);
  }

  #batchOf(mayTake: (open: OpenSettlement) => boolean): readonly OpenSettlement[] {
    const batch: OpenSettlement[] = [];
    const areOthersComing = this.#queue.size < this.#openAtLastAnswer;
    const countMax = areOthersComing ? this.#share : this.#rate.callMax;
    for (const open of this.#queue) {
      if (batch.length >= countMax) break;
      if (open.settlement.kind === 'look_up' && open.key !== null && this.#permits.has(open.key)) continue;
      // Units are named by their holder: after it has changed, the next call carries those of the other.
      if (batch[0] !== undefined && batch[0].holder !== open.holder) continue;
      if (mayTake(open)) batch.push(open);
    }
    return batch;
  }

  /**
   * What a call takes is longer than what these have left: sent, they would be settled for nobody, and voided
   * after that. While no call is in flight the one with the most time left is sent nevertheless, so that it
   * is measured whether calls have become quicker; and those that have just come always are, because one slow
   * call must not turn all away. Copies are never given up: they wait for another request to the end of their
   * time (contract §5), and the calls of late were slow because that one was under way.
   */
  #shedHopeless(): void {
    const callMs = Math.min(this.#usualCallMs, hopefulLeftMs);
    const leftMin = this.#deps.clock.monotonic() + callMs;
    const hopeless = [...this.#queue].filter(
      (open) => open.untilMs < leftMin && open.isUnsent && !this.#mayBeCopy(open),
    );
    if (this.#callsInFlight === 0 && hopeless.length === this.#queue.size) hopeless.pop();
    for (const open of hopeless) this.#notify(open, { kind: 'shed' });
  }

  #mayBeCopy({ settlement, key }: OpenSettlement): boolean {
    return settlement.kind === 'look_up' || (key !== null && (this.#permits.get(key) ?? 0) > 1);
  }

  /** Never rejects. */
  async #attempt(batch: readonly OpenSettlement[], holder: string): Promise<void> {
    const { clock, logger } = this.#deps;
    const sentAtMs = clock.monotonic();
    this.#lastSentAtMs = sentAtMs;
    this.#callsInFlight++;
    const passports = new Set(batch.map(({ settlement }) => settlement.passport_id));
    for (const each of passports) this.#busyPassports.set(each, (this.#busyPassports.get(each) ?? 0) + 1);
    const common = commonTrace(batch);
    const span = spanOf(this.#deps.tracer ?? null, batch, common);
    const trace = span?.trace ?? common;
    let isError = true;
    try {
      const sent = batch.map(({ settlement, untilMs }) => ({
        ...settlement,
        wanted_ms: Math.max(0, Math.floor(untilMs - sentAtMs)),
      }));
      const answers = await this.#deps.send(sent, holder, trace);
      if (answers.length !== batch.length)
        throw new Error('the control plane answered for other settlements than were sent');
      isError = false;
      this.#pause.reset();
      this.#openAtLastAnswer = this.#open.size;
      const nowMs = clock.monotonic();
      const tookMs = nowMs - sentAtMs;
      this.#usualCallMs = this.#usualCallMs === 0 ? tookMs : (this.#usualCallMs + tookMs) / 2;
      this.#rate.settled(batch.length, { sentAtMs, nowMs });
      batch.forEach((open, place) => {
        this.#answered(open, answers[place]);
      });
    } catch (error) {
      const about = { err: error, count: batch.length, ...(trace !== null && { trace_id: trace.traceId }) };
      logger.debug(about, 'a call with settlements was not answered');
      if (clock.monotonic() - sentAtMs >= hopefulLeftMs) this.#rate.unanswered(batch.length);
      this.#failed(batch, error);
    } finally {
      span?.end({ attributes: { 'agent_trust.settlements': batch.length }, isError });
      this.#callsInFlight--;
      for (const each of passports) {
        const others = (this.#busyPassports.get(each) ?? 1) - 1;
        if (others > 0) this.#busyPassports.set(each, others);
        else this.#busyPassports.delete(each);
      }
      this.#wake();
    }
  }

  #answered(open: OpenSettlement, answer: SettlementAnswer | undefined): void {
    if (answer === undefined) return;
    // A permit of its key began here after this look-up was sent: it has to look again when that is known.
    if (answer.kind === 'none' && open.key !== null && this.#permits.has(open.key) && !open.isOver) {
      open.queueAgain('arrived');
      this.#queue.add(open);
      return;
    }
    if (answer.kind === 'refused' && answer.is_passing !== true) {
      const { kind, gate_id } = open.settlement;
      this.#deps.logger.warn(
        { kind, gate_id, message: answer.message, ...traceFields(open.trace.traceparent) },
        'the control plane refused a settlement',
      );
    }
    this.#notify(open, answer);
  }

  /** Those with time left are sent again, before the others; none waits while the control plane is away. */
  #failed(batch: readonly OpenSettlement[], error: unknown): void {
    const waiting = [...this.#queue];
    this.#queue.clear();
    for (const open of batch) {
      if (open.isOver) continue;
      open.queueAgain(pastOf(error));
      this.#queue.add(open);
    }
    for (const open of waiting) this.#queue.add(open);
    if (this.#deps.isAway()) {
      for (const open of [...this.#queue]) this.#notify(open, { kind: open.outcomeWhileAway() });
    }
    this.#pauseTimer ??= setTimeout(() => {
      this.#pauseTimer = null;
      this.#wake();
    }, this.#pause.nextMs());
  }

  #endLate(): void {
    const nowMs = this.#deps.clock.monotonic();
    for (const open of this.#open) {
      if (open.untilMs <= nowMs) this.#notify(open, { kind: open.outcomeAtTheEnd() });
    }
    // At once, so that a retry comes in time for the next call.
    if (this.#callsInFlight > 0) this.#shedHopeless();
    if (this.#queue.size > 0) this.#wake();
  }

  #notify(open: OpenSettlement, outcome: SettlementOutcome): void {
    if (!this.#open.delete(open)) return;
    const wasQueued = this.#queue.delete(open);
    const { key, settlement, isPermitOnItsWay, isCertain } = open;
    open.noteOver();
    if (isPermitOnItsWay && key !== null) {
      const others = (this.#permits.get(key) ?? 1) - 1;
      if (others > 0) this.#permits.set(key, others);
      else this.#permits.delete(key);
    }
    if (this.#open.size === 0 && this.#sweep !== null) {
      clearInterval(this.#sweep);
      this.#sweep = null;
    }
    // Look-ups may have waited for this permit, and a call for room.
    if (isPermitOnItsWay || wasQueued) this.#wake();
    this.#count(settlement.kind, outcome.kind);
    try {
      open.onSettled(outcome, isCertain);
    } catch (error) {
      // One request's exception must not reach the others.
      const about = { err: error, ...traceFields(open.trace.traceparent) };
      this.#deps.logger.error(about, 'the outcome of a settlement could not be put into effect');
    }
  }

  #count(kind: Settlement['kind'], outcome: SettlementOutcome['kind']): void {
    const name = `${kind} ${outcome}`;
    const counted = this.#counts.get(name);
    if (counted !== undefined) counted.count++;
    else this.#counts.set(name, { kind, outcome, count: 1 });
  }
}

/** What an attempt leaves that ended in this error. */
function pastOf(error: unknown): Past {
  if (isRefusedConnection(error)) return 'unsent';
  return isTurnedAway(error) ? 'arrived' : 'uncertain';
}

/** The control plane has answered that it has not begun, or has rolled back. */
const isTurnedAway = (error: unknown): boolean =>
  error instanceof ControlPlaneError && (error.isTurnedAway || error.code === 'overloaded');

/** No program accepted the connection. */
const isRefusedConnection = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === 'ECONNREFUSED';

const noTrace: TraceHeaders = Object.freeze({ traceparent: '', tracestate: '' });

/** The trace to which all of them belong. Null: they belong to several, or one of them to none. */
function commonTrace([first, ...others]: readonly OpenSettlement[]): TraceContext | null {
  if (first === undefined || first.trace.traceparent === '') return null;
  const trace = parseTraceparent(first.trace.traceparent, first.trace.tracestate);
  const isCommon = others.every(
    (other) => parseTraceparent(other.trace.traceparent)?.traceId === trace?.traceId,
  );
  return isCommon ? trace : null;
}

/**
 * The span of a call: a child of the check that it is for, and of several the first, where one trace has all
 * of them. Otherwise it begins a trace, with links to those that are traced.
 */
function spanOf(
  tracer: Tracer | null,
  batch: readonly OpenSettlement[],
  common: TraceContext | null,
): Span | null {
  if (tracer === null) return null;
  const traced = batch.flatMap(({ trace }) => parseTraceparent(trace.traceparent) ?? []);
  const links = traced.filter(({ isSampled, parentId }) => isSampled && parentId !== common?.parentId);
  if (common === null && links.length === 0) return null;
  return tracer.start('settlements', {
    ...{ kind: 'client', parent: common, links: links.slice(0, telemetryLimits.linksMax) },
  });
}
