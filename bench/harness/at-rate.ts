import { setTimeout as pause } from 'node:timers/promises';
import { Pool } from 'undici';

interface Arrivals {
  readonly origin: string;
  readonly perSecond: number;
}

/**
 * Starts one after the other at a fixed rate, however long they take, and times each from the moment it was
 * due.
 */
export async function atRate<Item, Outcome extends object>(
  { origin, perSecond }: Arrivals,
  items: readonly Item[],
  one: (pool: Pool, item: Item) => Promise<Outcome>,
): Promise<readonly (Outcome & { readonly timeMs: number })[]> {
  const pool = new Pool(origin, { connections: 16, pipelining: 1 });
  const startedMs = performance.now();
  const outcomes = items.map(async (item, index) => {
    const dueMs = startedMs + (index * 1_000) / perSecond;
    await pause(dueMs - performance.now());
    const outcome = await one(pool, item);
    return { ...outcome, timeMs: performance.now() - dueMs };
  });
  try {
    return await Promise.all(outcomes);
  } finally {
    await pool.close();
  }
}

/**
 * How long `GET /livez` takes, which asks for no work: what the machine and its other programs add to
 * everything else.
 */
export async function askNothing(arrivals: Arrivals, requests: number): Promise<readonly number[]> {
  const answers = await atRate(arrivals, Array.from({ length: requests }), async (pool) => {
    const { body } = await pool.request({ method: 'GET', path: '/livez' });
    await body.dump();
    return {};
  });
  return answers.map(({ timeMs }) => timeMs);
}
