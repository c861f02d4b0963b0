import type { Database } from '../../control-plane/base/database.ts';
import { storageLimits } from '../../control-plane/storage/limits.ts';
import { limits } from '../../shared/model/limits.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { windowAt } from '../../shared/quota/window.ts';
import { type Answers, type Permitted, slackMs } from './answers.ts';
import { byLimit, type Cap, countedFor, isRate, type Overrun } from './caps.ts';
import type { RecordedPermit, Records } from './records.ts';

/** What became of a PERMIT's money, as the database has it. */
export interface HeldState {
  readonly attestationId: string;
  readonly status: 'open' | 'settled' | 'released' | 'expired';
  readonly outcome: 'served' | 'failed' | null;
}

const ends = new Set(['settled', 'released', 'expired']);

/** From the moment of a decision to its commit, with one pause and one wait for a lock. */
const committedMsMax = storageLimits.lockingPauseMsMax + limits.quotaWaitMsMax;

/**
 * Moments at which more was held or spent than the cap allows, by the chains and by when clients had their
 * answers: what goes back must have been there until then. A PERMIT counts from its decision on, and less
 * from the record that says so; both with the slack of their clocks in favour of the service. A control plane
 * has its moment before it asks the ledger, so there a PERMIT counts from its answer on, or from when its
 * transaction is over at the latest.
 */
export function momentsOverCap(
  caps: readonly Cap[],
  { permits }: Records,
  told: ReadonlyMap<string, Pick<Permitted, 'latestMs'>>,
): Overrun[] {
  const ofMoney = caps.filter((cap) => !isRate(cap));
  const counted = countedFor([...permits.values()]);
  return ofMoney.flatMap((cap) => {
    const own = counted(cap);
    const days = new Map<number, Step[]>();
    for (const permit of own) {
      const first = windowAt(cap.window, permit.timestampMs as UnixMillis);
      if (windowAt(cap.window, (permit.timestampMs + slackMs) as UnixMillis).startsAtMs !== first.startsAtMs)
        continue;
      days.set(first.startsAtMs, [
        ...(days.get(first.startsAtMs) ?? []),
        ...stepsOf(permit, told.get(permit.attestationId)),
      ]);
    }
    return [...days].flatMap(([startsAtMs, steps]): Overrun[] => {
      const given = highest(steps);
      const { endsAtMs } = windowAt(cap.window, startsAtMs as UnixMillis);
      return given > cap.limit
        ? [{ cap, startsAtMs, endsAtMs, given, allowed: byLimit(cap, startsAtMs as UnixMillis) }]
        : [];
    });
  });
}

interface Step {
  readonly atMs: number;
  readonly microUsd: number;
}

function stepsOf(
  { timestampMs, tookMicroUsd, changes, source }: RecordedPermit,
  told: Pick<Permitted, 'latestMs'> | undefined,
): Step[] {
  let counts = tookMicroUsd ?? 0;
  const decidedMs = timestampMs + slackMs;
  const takenMs =
    source === 'control-plane'
      ? Math.max(decidedMs, Math.min(decidedMs + committedMsMax, told?.latestMs ?? Infinity))
      : decidedMs;
  const steps: Step[] = [{ atMs: takenMs, microUsd: counts }];
  for (const { moneyMicroUsd, timestampMs: atMs } of changes) {
    const change = moneyMicroUsd - counts;
    if (change !== 0) steps.push({ atMs: atMs + (change < 0 ? -slackMs : slackMs), microUsd: change });
    counts = moneyMicroUsd;
  }
  return steps;
}

function highest(steps: readonly Step[]): number {
  let sum = 0;
  let most = 0;
  // At one moment, what goes back goes first.
  for (const { microUsd } of steps.toSorted((a, b) => a.atMs - b.atMs || a.microUsd - b.microUsd)) {
    sum += microUsd;
    most = Math.max(most, sum);
  }
  return most;
}

/** A hold ends at most once, a refund makes less of what counts, and nothing follows that must not. */
export function chainFaults({ permits }: Records): string[] {
  return [...permits.values()].flatMap(({ attestationId, isHeld, tookMicroUsd, changes }) => {
    const story = changes.map(({ resolution }) => resolution).join(', ');
    const wrong = (what: string) => [`${attestationId} ${what}: ${story}`];
    const ended = changes.findIndex(({ resolution }) => ends.has(resolution));
    if (changes.filter(({ resolution }) => ends.has(resolution)).length > 1) return wrong('ended twice');
    if (!isHeld && ended >= 0) return wrong('ended without a hold');
    let counts = tookMicroUsd ?? 0;
    for (const [place, { resolution, moneyMicroUsd }] of changes.entries()) {
      if (moneyMicroUsd < 0) return wrong('counts less than nothing');
      if (resolution === 'extended' && ended >= 0 && place > ended) return wrong('was extended past its end');
      if (resolution === 'refunded' && (moneyMicroUsd >= counts || (isHeld && (ended < 0 || place < ended))))
        return wrong('was refunded what it does not count');
      counts = moneyMicroUsd;
    }
    return [];
  });
}

/** A hold ends within 5 s of its time (contract §19); more on a machine that is busy with a race. */
const overdueMsMax = 15_000;

/** Holds that have not ended by themselves. Nothing is broken. */
export async function overdueHolds({ sql }: { readonly sql: Database }): Promise<readonly string[]> {
  const rows = await sql<{ id: string; overdueMs: number }[]>`
    SELECT attestation_id AS id,
      floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - hold_expires_at_ms AS "overdueMs"
    FROM permit_outcomes WHERE hold_status = 'open'`;
  return rows
    .filter(({ overdueMs }) => overdueMs > overdueMsMax)
    .map(({ id, overdueMs }) => `the hold of ${id} is open ${overdueMs} ms after its end`);
}

/** Sentences about outcomes that a server has taken and that did not come true. */
export function lostOutcomes(
  states: ReadonlyMap<string, HeldState>,
  { permits }: Records,
  answers: Answers,
): string[] {
  const wrong: string[] = [];
  for (const [attestationId, { sent, taken }] of answers.outcomes) {
    const permit = permits.get(attestationId);
    const state = states.get(attestationId);
    // Others say so, where it is not on record.
    if (permit === undefined || taken.size === 0) continue;
    const took = permit.tookMicroUsd ?? 0;
    const mayBeRefused = [...sent].some((text) => moneyOf(text, took) > took);
    if (state === undefined || (state.outcome === null && state.status === 'open')) {
      if (!mayBeRefused) wrong.push(`an outcome of ${attestationId} was taken, and is lost`);
      continue;
    }
    // Too late, or refused as too much: the hold has ended by itself.
    if (state.outcome === null) continue;
    const stands = [...sent].some(
      (text) =>
        JSON.parse(text).outcome === state.outcome &&
        (state.outcome === 'failed' || moneyOf(text, took) === settledTo(permit)),
    );
    if (!stands) wrong.push(`${attestationId} was settled by an outcome that no client has sent`);
  }
  return wrong;
}

/** What the PERMIT counts by this outcome. */
export function moneyOf(text: string, tookMicroUsd: number): number {
  const { outcome, amount } = JSON.parse(text);
  if (outcome === 'failed') return 0;
  return amount === undefined ? tookMicroUsd : Math.round(amount * 1e6);
}

const settledTo = ({ changes, tookMicroUsd }: RecordedPermit): number | null =>
  changes.find(({ resolution }) => resolution === 'settled')?.moneyMicroUsd ?? tookMicroUsd;
