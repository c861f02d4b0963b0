import { LRUCache } from 'lru-cache';
import { ApiError } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { BaseDeps } from '../base/deps.ts';
import {
  addAttempts,
  type CountedUnit,
  forgetOldestAttempts,
  removeAttempts,
  trimAttempts,
} from './attempt-store.ts';
import { peopleLimits } from './limits.ts';

/** A count in which an attempt needs room. */
export interface CountLimit {
  readonly key: string;
  readonly max: number;
}

/** Who waits to be counted: a browser that has logged in here before, or anybody. */
type CountLane = 'known' | 'anybody';

export type CountedAttempt =
  | { readonly isAllowed: true; readonly units: readonly CountedUnit[] }
  | { readonly isAllowed: false; readonly waitMs: number };

/**
 * Counts of attempts that all control planes share, in PostgreSQL. Whatever comes while one statement is
 * under way is counted by the next one, so that a flood costs one statement after the other and not one for
 * each attempt. A count that is full is not asked again for `peopleLimits.fullKeptMs`.
 */
export interface AttemptCounts {
  /**
   * Counts an attempt in all of these, or in none where one of them is full. Throws `overloaded` where more
   * than `peopleLimits.attemptsWaitingMax` of the lane wait already.
   */
  take(counts: readonly CountLimit[], lane: CountLane): Promise<CountedAttempt>;
  /** Takes back what was counted. Never rejects: what PostgreSQL did not take back ends with its window. */
  giveBack(units: readonly CountedUnit[]): Promise<void>;
}

interface Taking {
  readonly counts: readonly CountLimit[];
  readonly lane: CountLane;
  resolve(counted: CountedAttempt): void;
  reject(error: unknown): void;
}

interface Return {
  readonly units: readonly CountedUnit[];
  done(): void;
}

export function attemptCounts({
  sql,
  clock,
  logger,
}: Pick<BaseDeps, 'sql' | 'clock' | 'logger'>): AttemptCounts {
  let takings: Taking[] = [];
  let returns: Return[] = [];
  let isRunning = false;
  let countedSinceForgetting = 0;
  const full = new LRUCache<string, UnixMillis>({
    max: peopleLimits.fullKeysMax,
    ttl: peopleLimits.fullKeptMs,
    ttlResolution: 0,
    perf: { now: () => clock.monotonic() },
  });
  const refusal = (endsAtMs: readonly UnixMillis[]): CountedAttempt => ({
    isAllowed: false,
    waitMs: Math.max(1, Math.max(...endsAtMs) - clock.now()),
  });

  /** Never throws. What a program that ends has not given back stays counted until its window ends. */
  const run = async () => {
    if (isRunning) return;
    isRunning = true;
    while (takings.length + returns.length > 0) {
      const [taken, returned] = [takings, returns];
      [takings, returns] = [[], []];
      await giveBackAll(returned);
      if (taken.length > 0) await countAll(taken);
    }
    isRunning = false;
  };

  const giveBackAll = async (returned: readonly Return[]) => {
    const units = returned.flatMap((each) => each.units);
    try {
      if (units.length > 0) await removeAttempts(sql, units);
    } catch (error) {
      logger.warn({ err: error }, 'logins that succeeded stay counted until their window ends');
    }
    for (const { done } of returned) done();
  };

  const countAll = async (taken: readonly Taking[]) => {
    const units = unitsOf(taken);
    try {
      const counts = new Map((await addAttempts(sql, units, clock.now())).map((each) => [each.key, each]));
      const countOf = ({ key }: CountLimit) => must(counts.get(key), 'each key was counted');
      const room = new Map<string, number>();
      const roomOf = (each: CountLimit): number =>
        room.get(each.key) ?? each.max - countOf(each).attempts + (units.get(each.key) ?? 0);
      for (const { counts: wanted, resolve } of taken) {
        const own = wanted.map(countOf);
        const ends = wanted.filter((each) => roomOf(each) <= 0).map(countOf);
        if (ends.length === 0) {
          for (const each of wanted) room.set(each.key, roomOf(each) - 1);
          resolve({ isAllowed: true, units: own });
        } else {
          // What one count refuses is no attempt: it must not use up the other ones.
          returns.push({ units: own, done: () => undefined });
          for (const { key, endsAtMs } of ends) full.set(key, endsAtMs);
          resolve(refusal(ends.map(({ endsAtMs }) => endsAtMs)));
        }
      }
    } catch (error) {
      for (const { reject } of taken) reject(error);
      return;
    }
    await trim(units.size);
  };

  /** Old counts go faster than new ones come. */
  const trim = async (counted: number) => {
    try {
      await trimAttempts(sql, clock.now(), 2 * counted);
      countedSinceForgetting += counted;
      if (countedSinceForgetting < peopleLimits.attemptsPerForgetting) return;
      countedSinceForgetting = 0;
      await forgetOldestAttempts(sql);
    } catch (error) {
      logger.warn({ err: error }, 'old counts of logins could not be removed');
    }
  };

  return {
    take: async (counts, lane) => {
      const ends = counts.flatMap(({ key }) => full.get(key) ?? []);
      if (ends.length > 0) return refusal(ends);
      const waiting = takings.filter((each) => each.lane === lane).length;
      if (waiting >= peopleLimits.attemptsWaitingMax) throw new ApiError('overloaded');
      return new Promise((resolve, reject) => {
        takings.push({ counts, lane, resolve, reject });
        void run();
      });
    },
    giveBack: (units) =>
      new Promise((done) => {
        for (const { key } of units) full.delete(key);
        returns.push({ units, done });
        void run();
      }),
  };
}

/** How many of them want each key. */
function unitsOf(taken: readonly Taking[]): ReadonlyMap<string, number> {
  const units = new Map<string, number>();
  for (const { key } of taken.flatMap(({ counts }) => counts)) units.set(key, (units.get(key) ?? 0) + 1);
  return units;
}
