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

/** The lane of an attempt: a browser that has logged in before, or any other. */
type CountLane = 'known' | 'anybody';

export type CountedAttempt =
  | { readonly isAllowed: true; readonly units: readonly CountedUnit[] }
  | { readonly isAllowed: false; readonly waitMs: number };

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

/** What one round counts and gives back. */
interface Batch {
  readonly takings: Taking[];
  readonly returns: Return[];
}

/** `next`: what has come since the round under way began. */
type State = { readonly kind: 'idle' } | { readonly kind: 'counting'; readonly next: Batch };

/**
 * Counts of attempts in PostgreSQL, shared by all control planes. Attempts that arrive during one statement
 * are counted by the next, so a flood costs consecutive statements instead of one per attempt. A full count
 * is not read again for `peopleLimits.fullKeptMs`.
 *
 *     idle ──something comes──> counting ──something came meanwhile──> counting
 *                                   └──nothing did──> idle
 */
export class AttemptCounts {
  readonly #deps: Pick<BaseDeps, 'sql' | 'clock' | 'logger'>;
  readonly #full: LRUCache<string, UnixMillis>;
  #state: State = { kind: 'idle' };
  #countedSinceForgetting = 0;

  constructor(deps: Pick<BaseDeps, 'sql' | 'clock' | 'logger'>) {
    this.#deps = deps;
    this.#full = new LRUCache<string, UnixMillis>({
      max: peopleLimits.fullKeysMax,
      ttl: peopleLimits.fullKeptMs,
      ttlResolution: 0,
      perf: { now: () => deps.clock.monotonic() },
    });
  }

  /**
   * Counts an attempt in all of these, or in none if one is full. Throws `overloaded` if
   * `peopleLimits.attemptsWaitingMax` of the lane wait already.
   */
  async take(counts: readonly CountLimit[], lane: CountLane): Promise<CountedAttempt> {
    const ends = counts.flatMap(({ key }) => this.#full.get(key) ?? []);
    if (ends.length > 0) return this.#refusal(ends);
    const takings = this.#state.kind === 'counting' ? this.#state.next.takings : [];
    const waiting = takings.filter((each) => each.lane === lane).length;
    if (waiting >= peopleLimits.attemptsWaitingMax) throw new ApiError('overloaded');
    return new Promise((resolve, reject) => {
      this.#add({ takings: [{ counts, lane, resolve, reject }], returns: [] });
    });
  }

  /** Uncounts attempts. Never rejects: a count that PostgreSQL did not take back ends with its window. */
  giveBack(units: readonly CountedUnit[]): Promise<void> {
    for (const { key } of units) this.#full.delete(key);
    return new Promise((done) => this.#add({ takings: [], returns: [{ units, done }] }));
  }

  #add(batch: Batch): void {
    if (this.#state.kind === 'idle') {
      void this.#count(batch);
      return;
    }
    this.#state.next.takings.push(...batch.takings);
    this.#state.next.returns.push(...batch.returns);
  }

  /** Never throws. Counts not given back before the program ends stay until their window ends. */
  async #count(first: Batch): Promise<void> {
    for (let batch = first; batch.takings.length + batch.returns.length > 0; ) {
      const next: Batch = { takings: [], returns: [] };
      this.#state = { kind: 'counting', next };
      await this.#giveBackAll(batch.returns);
      if (batch.takings.length > 0) next.returns.push(...(await this.#countAll(batch.takings)));
      batch = next;
    }
    this.#state = { kind: 'idle' };
  }

  async #giveBackAll(returned: readonly Return[]): Promise<void> {
    const { sql, logger } = this.#deps;
    const units = returned.flatMap((each) => each.units);
    try {
      if (units.length > 0) await removeAttempts(sql, units);
    } catch (error) {
      logger.warn({ err: error }, 'logins that succeeded stay counted until their window ends');
    }
    for (const { done } of returned) done();
  }

  /** Returns surplus counts: an attempt refused by one count must not use up others. */
  async #countAll(taken: readonly Taking[]): Promise<readonly Return[]> {
    const { sql, clock } = this.#deps;
    const units = unitsOf(taken);
    const returns: Return[] = [];
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
          returns.push({ units: own, done: () => undefined });
          for (const { key, endsAtMs } of ends) this.#full.set(key, endsAtMs);
          resolve(this.#refusal(ends.map(({ endsAtMs }) => endsAtMs)));
        }
      }
    } catch (error) {
      for (const { reject } of taken) reject(error);
      return returns;
    }
    await this.#trim(units.size);
    return returns;
  }

  #refusal(endsAtMs: readonly UnixMillis[]): CountedAttempt {
    return { isAllowed: false, waitMs: Math.max(1, Math.max(...endsAtMs) - this.#deps.clock.now()) };
  }

  /** Old counts go faster than new ones come. */
  async #trim(counted: number): Promise<void> {
    const { sql, clock, logger } = this.#deps;
    try {
      await trimAttempts(sql, clock.now(), 2 * counted);
      this.#countedSinceForgetting += counted;
      if (this.#countedSinceForgetting < peopleLimits.attemptsPerForgetting) return;
      this.#countedSinceForgetting = 0;
      await forgetOldestAttempts(sql);
    } catch (error) {
      logger.warn({ err: error }, 'old counts of logins could not be removed');
    }
  }
}

/** Attempts per key. */
function unitsOf(taken: readonly Taking[]): ReadonlyMap<string, number> {
  const units = new Map<string, number>();
  for (const { key } of taken.flatMap(({ counts }) => counts)) units.set(key, (units.get(key) ?? 0) + 1);
  return units;
}
