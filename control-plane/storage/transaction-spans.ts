import { currentTrace } from '../../shared/runtime/current-trace.ts';
import type { Tracer } from '../../shared/telemetry/tracer.ts';
import type { Database } from '../base/database.ts';

const attributes = { 'db.system.name': 'postgresql' };

/**
 * From now on each transaction of a request that is traced has a span. It shows no statement: those have ids
 * and texts of people in them. What several requests share belongs to no trace and has none.
 */
export function traceTransactions(sql: Database, tracer: Tracer): void {
  const begin: (...args: never[]) => Promise<unknown> = sql.begin.bind(sql);
  const traced = (...args: never[]): Promise<unknown> => {
    const transaction = begin(...args);
    const parent = currentTrace();
    const span = parent === null ? null : tracer.start('transaction', { kind: 'client', parent });
    if (span === null) return transaction;
    transaction.then(
      () => span.end({ attributes, isError: false }),
      () => span.end({ attributes, isError: true }),
    );
    return transaction;
  };
  Object.assign(sql, { begin: traced });
}
