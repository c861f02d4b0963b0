import type { Database, Transaction } from '../base/database.ts';
import { storageLimits } from './limits.ts';

/**
 * Settings of PostgreSQL that our statements need, whatever the defaults of the server, the database and the
 * role are. Every role may set each of them.
 *
 * Rows are found by their keys: PostgreSQL keeps plans, also those of the first seconds of an installation,
 * when reading an empty table as a whole is the cheapest way. Before version 18 `enable_seqscan = off` adds
 * 10^10 to the cost of a plan that cannot do without, so JIT would compile it, for 100 ms and more each time.
 */
export const sessionSettings = (options: { readonly looksThroughTables: boolean }) => ({
  jit: 'off',
  default_transaction_isolation: 'read committed' as const,
  // How values are written and read.
  DateStyle: 'ISO',
  TimeZone: 'UTC',
  bytea_output: 'hex',
  standard_conforming_strings: true,
  statement_timeout: storageLimits.databaseStatementMsMax,
  idle_in_transaction_session_timeout: storageLimits.databaseStatementMsMax,
  ...(options.looksThroughTables ? {} : { enable_seqscan: 'off' }),
});

/** Pools whose transactions set all this by themselves. */
const throughPoolers = new WeakMap<Database, string>();

/**
 * The settings go with the start of each connection, where a server takes them. A pooler in transaction mode
 * refuses or drops them, because it has no sessions: from now on they go with each transaction instead, and
 * nothing is prepared beyond it. Statements outside of a transaction run with the defaults of the role.
 */
export function passThroughPooler(sql: Database): void {
  const { connection } = sql.options;
  const calls = Object.entries(
    sessionSettings({ looksThroughTables: connection['enable_seqscan'] !== 'off' }),
  )
    .filter(([name]) => name !== 'default_transaction_isolation')
    .map(([name, value]) => `set_config('${name}', '${value}', true)`);
  throughPoolers.set(sql, `SELECT ${calls.join(', ')}`);
  for (const name of Object.keys(connection)) if (name !== 'application_name') delete connection[name];
  // The driver reads its options for each statement.
  Object.assign(sql.options, { prepare: false });
}

export const passesThroughPooler = (sql: Database): boolean => throughPoolers.has(sql);

/** PgBouncer refuses a connection that asks for a setting of its session. */
export const isRefusedParameter = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === '08P01';

const isReadOnly = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === '25006';

const leavers = new WeakMap<Database, () => void>();

/** The server behind the pool is a standby now: its connections end, and new ones look for the primary. */
export const leaveServer = (sql: Database): void => leavers.get(sql)?.();

/** See beginReading. A word of our patch of the driver. */
export const eagerly = 'eager';

/**
 * Names the isolation of each transaction as it begins, so that the default of the database, the role or a
 * session does not count. One that names its own keeps it. `onReadOnly`: the server took no writes (25006).
 */
export function pinTransactions(sql: Database, { onReadOnly }: { readonly onReadOnly: () => void }): void {
  leavers.set(sql, onReadOnly);
  const begin = sql.begin.bind(sql);
  const pinned = <T>(
    options: string | ((tx: Transaction) => Promise<T>),
    work?: (tx: Transaction) => Promise<T>,
  ) => {
    const [modes, run] = typeof options === 'string' ? [options, work] : ['', options];
    const isEager = modes === eagerly;
    const isolation = /isolation level/i.test(modes) ? '' : 'ISOLATION LEVEL READ COMMITTED ';
    const transaction = begin(isEager ? `${eagerly} ${isolation}` : `${isolation}${modes}`, (tx) => {
      const settings = throughPoolers.get(sql);
      // Travels with the first statement of the work; where it fails, the driver fails the transaction.
      if (settings !== undefined)
        tx.unsafe(settings)
          .execute()
          .catch(() => undefined);
      return run?.(tx);
    });
    transaction.catch((error: unknown) => {
      if (isReadOnly(error)) onReadOnly();
    });
    return transaction;
  };
  Object.assign(sql, { begin: pinned });
}
