import { responseOf } from '../../clients/node/src/agent-trust.ts';
import type { Attestation } from '../../clients/node/src/generated/api.ts';
import { limits } from '../../shared/model/limits.ts';
import { minuteMs } from '../../shared/model/time.ts';
import type { Work } from '../base/host.ts';
import { pollUntil } from '../base/poll.ts';
import { recordColumns } from './record-columns.ts';

type Query = NonNullable<Parameters<Work['client']['attestations']['list']>[0]>;

interface TailOptions {
  readonly filter: Query;
  /** Null: only records that arrive from now on. */
  readonly since: string | null;
  /** Ends it. */
  readonly signal: AbortSignal;
}

/**
 * Every so many polls it looks back this far for records that came late: a sidecar was cut off and sends them
 * with the time of the decision. Those that come later still are in `attestations list`.
 */
const pollsPerLookBack = 10;
const lookBackMs = 15 * minuteMs;
/** Of one poll: 10,000 records. */
const pagesPerPollMax = 20;
/** Ten polls' worth. */
const seenMax = 10 * pagesPerPollMax * limits.attestationPageItemsMax;

/**
 * `agent-trust attestations tail`: polls the list, newest first, until it meets what it has shown. Each
 * record is shown once, those of one poll in the order of their decisions. A service that is away is asked
 * again, and what it recorded meanwhile is shown then.
 */
export async function tailAttestations(work: Work, options: TailOptions): Promise<undefined> {
  const tail = new Tail(work, options);
  let isFirst = true;
  let polls = 0;
  return pollUntil(options.signal, work.print, async (heard) => {
    const found = await tail.poll(polls++ % pollsPerLookBack === 0);
    heard();
    if (found.length > 0) {
      work.print.rows(recordColumns, found, isFirst);
      isFirst = false;
    }
    return tail;
  });
}

class Tail {
  readonly #work: Work;
  readonly #filter: Query;
  readonly #signal: AbortSignal;
  readonly #seen = new Set<string>();
  /** Nothing older is ever shown: it was there at the start. Null: nothing was. */
  #floor: string | null;
  #isMarked: boolean;
  #newestMs = 0;
  isLimited = false;

  constructor(work: Work, { filter, since, signal }: TailOptions) {
    this.#work = work;
    this.#filter = filter;
    this.#signal = signal;
    this.#floor = since;
    this.#isMarked = since !== null;
  }

  /** New records, oldest first. The first poll shows nothing, unless `since` was given. */
  async poll(looksBack: boolean): Promise<readonly Attestation[]> {
    const wasMarked = this.#isMarked;
    const found = await this.#walk(looksBack || !wasMarked);
    // Only now: a poll that broke off is made again from the start.
    for (const { id } of found) this.#seen.add(id);
    for (const id of this.#seen) {
      if (this.#seen.size <= seenMax) break;
      this.#seen.delete(id);
    }
    const [newest] = found;
    if (newest !== undefined) this.#newestMs = Math.max(this.#newestMs, Date.parse(newest.timestamp));
    this.#isMarked = true;
    if (wasMarked) return found.toSorted((one, other) => (one.timestamp < other.timestamp ? -1 : 1));
    this.#floor = found.at(-1)?.timestamp ?? null;
    return [];
  }

  async #walk(looksBack: boolean): Promise<Attestation[]> {
    const found: Attestation[] = [];
    let cursor: string | null = null;
    for (let pages = 0; pages < pagesPerPollMax; pages++) {
      const query: Query = {
        ...this.#filter,
        ...this.#bound(),
        limit: limits.attestationPageItemsMax,
        ...(cursor === null ? {} : { cursor }),
      };
      const page = await this.#work.client.attestations.list(query, { signal: this.#signal });
      this.isLimited = responseOf(page).headers['x-ratelimit-limit'] !== undefined;
      const fresh = page.attestations.filter(({ id }) => !this.#seen.has(id));
      found.push(...fresh);
      cursor = page.next_cursor;
      const meetsShown = fresh.length < page.attestations.length;
      if (cursor === null || (meetsShown && !looksBack)) return found;
    }
    if (this.#isMarked)
      this.#work.print.say(
        `More than ${found.length} new records at once: older ones are left out. See agent-trust attestations list.`,
      );
    return found;
  }

  /** How far back a poll looks at most. */
  #bound(): { readonly since?: string } {
    const backMs = this.#newestMs - lookBackMs;
    const floorMs = this.#floor === null ? 0 : Date.parse(this.#floor);
    const sinceMs = Math.max(backMs, floorMs);
    if (Number.isNaN(sinceMs) && this.#floor !== null) return { since: this.#floor };
    return sinceMs > 0 ? { since: new Date(sinceMs).toISOString() } : {};
  }
}
