import type { Database, Transaction } from '../base/database.ts';
import { eagerly } from './session-settings.ts';

type Results<Parts extends readonly unknown[]> = {
  -readonly [Place in keyof Parts]: Awaited<Parts[Place]>;
};

/**
 * Parts of one transaction that need nothing of each other. What each of them sends before it waits travels
 * together, and is done in this order: a journey to PostgreSQL and back costs the processor more than most of
 * our statements.
 *
 * They are functions because the driver sends a query when it is awaited: beside a part in flight it would
 * come last.
 *
 * Waits for all parts, even after a failure, and then throws the first error. If the transaction were rolled
 * back during a part, its next statement would run outside of it.
 */
export async function together<Parts extends readonly unknown[]>(
  parts: {
    readonly [Place in keyof Parts]: () => Parts[Place];
  },
): Promise<Results<Parts>> {
  // Each is waited for here and now, so that all are sent in the same way, one after the other.
  const settled = await Promise.allSettled(parts.map(async (part) => await part()));
  const failed = settled.find((each) => each.status === 'rejected');
  if (failed?.status === 'rejected') throw failed.reason;
  return settled.map((each) => (each.status === 'fulfilled' ? each.value : null)) as Results<Parts>;
}

/**
 * The rows of queries that need nothing of each other. In a transaction they travel together. Of a pool each
 * would take a connection of its own, so there they go one after the other.
 */
export async function readTogether<Queries extends readonly PromiseLike<unknown>[]>(
  sql: Database | Transaction,
  queries: readonly [...Queries],
): Promise<Results<Queries>> {
  if ('savepoint' in sql) return (await together(queries.map((query) => () => query))) as Results<Queries>;
  const rows: unknown[] = [];
  // The driver sends a query when it is awaited.
  for (const query of queries) rows.push(await query);
  return rows as Results<Queries>;
}

/**
 * A transaction whose BEGIN travels with its first statements. They only read or lock, and set what ends with
 * the transaction: where BEGIN failed they would be done outside of it, and then nothing more is.
 */
export const beginReading = <T>(sql: Database, work: (tx: Transaction) => Promise<T>): Promise<T> =>
  // The driver answers what an array of promises answers, and ours answer none.
  sql.begin(eagerly, work) as Promise<T>;

/**
 * The last statement of a transaction, sent with the COMMIT without awaiting its answer. If it fails, the
 * COMMIT rolls back and the transaction fails as usual. Errors before it is sent are thrown here.
 */
export async function sendWithCommit(last: () => Promise<unknown>): Promise<void> {
  const answered = last();
  // The driver sends at the end of a turn.
  await Promise.race([answered, new Promise((resolve) => setImmediate(resolve))]);
  answered.catch(() => undefined);
}
