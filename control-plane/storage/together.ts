import type { Database, Transaction } from '../base/database.ts';

type Results<Parts extends readonly unknown[]> = {
  -readonly [Place in keyof Parts]: Awaited<Parts[Place]>;
};

/**
 * Parts of one transaction that need nothing of each other. What each of them sends before it waits travels
 * together, and is done in this order: a journey to PostgreSQL and back costs the processor more than most of
 * our statements.
 *
 * They are functions because a query of the driver is sent when somebody waits for it: beside a part that is
 * under way already it would come last.
 *
 * Waits for all of them, whatever becomes of any, and then throws what the first one threw that failed. A
 * transaction that were rolled back while a part goes on would have its next statement done outside of it.
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
  // A query of the driver is sent when somebody waits for it.
  for (const query of queries) rows.push(await query);
  return rows as Results<Queries>;
}
