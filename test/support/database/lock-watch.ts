import { advisoryLockSeeds, advisoryLocks, lockOrder } from '../../../control-plane/storage/locks.ts';

/** What a transaction holds, and what it held at each of its savepoints. */
interface Watched {
  held: ReadonlySet<string>;
  readonly savepoints: Map<string, ReadonlySet<string>>;
}

/**
 * Watches the transactions of a pool for the order of their locks: `onStatement` is for `connect`. Of
 * `violations`, with what the transaction held by then, whoever reports them takes them out.
 *
 * It sees statements, not rows: whoever holds rows of a table may come back to that table, because it mostly
 * does so for the rows that it holds.
 */
export function watchLocks() {
  const transactions = new Map<number, Watched>();
  const violations: string[] = [];
  const onStatement = (connection: number, text: string, parameters: readonly unknown[]): void => {
    const [verb = '', ...rest] = text.trim().toLowerCase().split(/\s+/);
    if (verb === 'begin') transactions.set(connection, { held: new Set(), savepoints: new Map() });
    const transaction = transactions.get(connection);
    if (transaction === undefined) return;
    const savepoint = rest.at(-1) ?? '';
    if (verb === 'savepoint') transaction.savepoints.set(savepoint, transaction.held);
    else if (verb === 'rollback' && rest[0] === 'to')
      transaction.held = transaction.savepoints.get(savepoint) ?? transaction.held;
    else if (verb === 'commit' || verb === 'rollback') transactions.delete(connection);
    else transaction.held = withLocksOf(transaction.held, text, parameters);
  };

  const withLocksOf = (
    held: ReadonlySet<string>,
    text: string,
    parameters: readonly unknown[],
  ): ReadonlySet<string> => {
    const taken = locksOf(text, parameters);
    if (taken.length === 0) return held;
    for (const { name, mayWait } of taken) {
      const later = [...held].filter((other) => placeOf(other) > placeOf(name));
      if (mayWait && !held.has(name) && later.length > 0)
        violations.push(`takes ${name} after ${later.join(', ')}: ${text.trim().replace(/\s+/g, ' ')}`);
    }
    return new Set([...held, ...taken.map(({ name }) => name)]);
  };
  return { onStatement, violations };
}

const order: readonly string[] = lockOrder;
const placeOf = (name: string): number => order.indexOf(name);
const namesOfNumbers: ReadonlyMap<string, string> = new Map(
  Object.entries({ ...advisoryLocks, ...advisoryLockSeeds }).map(([name, number]) => [String(number), name]),
);

interface TakenLock {
  readonly name: string;
  /** False: what others hold is passed over. */
  readonly mayWait: boolean;
}

/**
 * The locks of `lockOrder` that a statement takes: advisory locks by their numbers, and rows of the tables
 * that it writes, or reads `FOR UPDATE` and the like.
 */
function locksOf(text: string, parameters: readonly unknown[]): TakenLock[] {
  const taken: TakenLock[] = [];
  if (text.includes('pg_advisory_xact_lock'))
    taken.push(
      ...parameters.map((each) => ({ name: namesOfNumbers.get(String(each)) ?? '', mayWait: true })),
    );
  // Rows that were found with SKIP LOCKED are held by the statement before it writes them.
  const isSkipping = text.includes('SKIP LOCKED');
  for (const [, name = ''] of text.matchAll(/\b(?:UPDATE|DELETE FROM)\s+([a-z_]+)/g))
    taken.push({ name, mayWait: !isSkipping });
  for (const [, name = ''] of text.matchAll(/\bINSERT INTO\s+([a-z_]+)(?:(?!INSERT INTO).)*ON CONFLICT/gs))
    taken.push({ name, mayWait: true });
  for (const match of text.matchAll(
    /\bFOR (?:NO KEY UPDATE|UPDATE|KEY SHARE|SHARE)(?: OF ([a-z_]+))?( SKIP LOCKED)?/g,
  )) {
    const [, alias, skips] = match;
    const sources = text
      .slice(0, match.index)
      .matchAll(/(?:\bFROM|\bJOIN|,)\s+([a-z_]+)\b(?!\s*\()(?:\s+(?:AS\s+)?([a-z]+))?/g);
    const source = [...sources].findLast(
      ([, table, name]) => alias === undefined || [table, name].includes(alias),
    );
    taken.push({ name: source?.[1] ?? '', mayWait: skips === undefined });
  }
  return taken.filter(({ name }) => placeOf(name) >= 0);
}
