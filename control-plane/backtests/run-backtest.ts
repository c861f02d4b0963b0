import type { AttestationRecord } from '../../shared/model/attestation.ts';
import type { BacktestFailure } from '../../shared/model/backtest.ts';
import type { Outcome } from '../../shared/model/decision.ts';
import type { AttestationId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { Backtest, type Beside } from '../../shared/replay/backtest.ts';
import type { OtherPolicy } from '../../shared/replay/decide-again.ts';
import type { DifferenceReport } from '../../shared/replay/difference.ts';
import { otherPolicyOf } from '../../shared/replay/former-policy.ts';
import { TooManyWindows } from '../../shared/replay/simulated-windows.ts';
import { timeOfId } from '../attestations/id-uuid.ts';
import { type PlacedRecord, readGateRecords } from '../attestations/read-gate-records.ts';
import type { BaseDeps } from '../base/deps.ts';
import type { BacktestJob } from './backtest-store.ts';
import { backtestsLimits } from './limits.ts';
import { PastFacts, statedPolicy } from './past-facts.ts';

/** Ends a backtest. */
export class BacktestFailed extends Error {
  readonly reason: BacktestFailure;
  constructor(reason: BacktestFailure) {
    super(reason);
    this.reason = reason;
  }
}

interface Span {
  readonly fromMs: UnixMillis;
  readonly untilMs: UnixMillis;
}

/** What the backtest does next, in the order of time. */
interface Event {
  readonly kind: 'decide' | 'settle';
  readonly atMs: UnixMillis;
  readonly position: number;
  readonly record: AttestationRecord;
}

/**
 * Decides what is on record of a gate again, by the policy of the job. Memory holds a page of PERMITs, one of
 * BLOCKs, the approvals of the time, and what the pure part bounds. `onPage` gets how far it is, from 0 to 1;
 * it throws to end it.
 */
export async function runBacktest(
  { sql }: Pick<BaseDeps, 'sql'>,
  job: BacktestJob,
  onPage: (progress: number) => Promise<void>,
  make = (other: OtherPolicy, time: Span) => new Backtest(other, time),
): Promise<DifferenceReport> {
  const { sinceMs, untilMs } = job;
  const stated = await statedPolicy(sql, job, { hash: job.policyHash, text: job.policy });
  const other = otherPolicyOf(job, stated);
  if (other === null) throw new BacktestFailed('internal_error');
  const facts = new PastFacts(sql, job, stated);
  const backtest = make(other, { fromMs: sinceMs, untilMs });
  const learned: Learned = async (events) => {
    await facts.learn(events.map(({ record }) => record));
    const known = events.map((event) => ({ ...event, beside: facts.of(event.record) }));
    const lastMs = events.at(-1)?.atMs ?? untilMs;
    await onPage(Math.min(1, Math.max(0, (lastMs - sinceMs) / (untilMs - sinceMs))));
    return known;
  };
  try {
    const approvals = await approvalEvents(sql, job, onPage);
    const streams = [
      pagesOf(approvals, learned),
      recordEvents(sql, job, 'PERMIT', learned),
      recordEvents(sql, job, 'BLOCK', learned),
    ];
    for await (const { kind, record, atMs, beside } of inOrder(streams)) {
      if (kind === 'decide') backtest.decide(record, beside, atMs);
      else backtest.settle(record, beside);
    }
  } catch (error) {
    throw error instanceof TooManyWindows ? new BacktestFailed('too_many_counters') : error;
  }
  return backtest.report();
}

interface KnownEvent extends Event {
  readonly beside: Beside;
}

type Learned = (events: readonly Event[]) => Promise<readonly KnownEvent[]>;

async function* recordEvents(
  sql: BaseDeps['sql'],
  job: BacktestJob,
  decision: Outcome,
  learned: Learned,
): AsyncGenerator<readonly KnownEvent[]> {
  for await (const page of readGateRecords(sql, job, { ...job, decision }))
    yield learned(page.filter(({ record }) => !record.test).map(eventOf));
}

const eventOf = ({ record, position }: PlacedRecord): Event => ({
  kind: record.resolution === null ? 'decide' : 'settle',
  atMs: record.timestampMs,
  position,
  record,
});

/**
 * A SUSPEND is on record when its approval ends, and was decided when it was asked for: the first record of
 * an approval stands for it. One that nobody has answered yet is on no record.
 */
async function approvalEvents(
  sql: BaseDeps['sql'],
  job: BacktestJob,
  onPage: (progress: number) => Promise<void>,
): Promise<readonly Event[]> {
  const events: Event[] = [];
  const seen = new Set<string>();
  const untilMs = job.createdAtMs;
  for await (const page of readGateRecords(sql, job, { ...job, untilMs, decision: 'SUSPEND' })) {
    for (const { record, position } of page) {
      const { refersTo, test, timestampMs } = record;
      if (test || refersTo === null) continue;
      const askedMs = timeOfId(refersTo.replace('appr_', 'att_') as AttestationId);
      if (askedMs < job.sinceMs || askedMs >= job.untilMs) continue;
      if (!seen.has(refersTo)) events.push({ kind: 'decide', atMs: askedMs, position, record });
      seen.add(refersTo);
      if (timestampMs < job.untilMs) events.push({ kind: 'settle', atMs: timestampMs, position, record });
    }
    if (seen.size > backtestsLimits.approvalsMax) throw new BacktestFailed('too_many_approvals');
    await onPage(0);
  }
  return events.sort(byTime);
}

const pageEvents = 500;

async function* pagesOf(events: readonly Event[], learned: Learned): AsyncGenerator<readonly KnownEvent[]> {
  for (let first = 0; first < events.length; first += pageEvents)
    yield learned(events.slice(first, first + pageEvents));
}

const byTime = (one: Event, other: Event): number => one.atMs - other.atMs || one.position - other.position;

/** Merges streams that are each in order. A page of each is in memory. */
async function* inOrder(
  streams: readonly AsyncGenerator<readonly KnownEvent[]>[],
): AsyncGenerator<KnownEvent> {
  const heads: Head[] = [];
  // One after the other: they share what is known.
  for (const stream of streams) heads.push(await new Head(stream).filled());
  for (;;) {
    let least: Head | null = null;
    for (const head of heads)
      if (head.event !== null && (least?.event == null || byTime(head.event, least.event) < 0)) least = head;
    if (least?.event == null) return;
    yield least.event;
    least.place += 1;
    if (least.isSpent) await least.filled();
  }
}

class Head {
  readonly #stream: AsyncGenerator<readonly KnownEvent[]>;
  #page: readonly KnownEvent[] = [];
  place = 0;

  constructor(stream: AsyncGenerator<readonly KnownEvent[]>) {
    this.#stream = stream;
  }

  get event(): KnownEvent | null {
    return this.#page[this.place] ?? null;
  }

  get isSpent(): boolean {
    return this.place >= this.#page.length;
  }

  /** With the next page that is not empty, if there is one. */
  async filled(): Promise<this> {
    while (this.isSpent) {
      const next = await this.#stream.next();
      if (next.done === true) break;
      this.#page = next.value;
      this.place = 0;
    }
    return this;
  }
}
