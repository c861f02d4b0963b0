import type { Database, Transaction } from '../base/database.ts';

type Sql = Database | Transaction;

/**
 * A condition that the column holds this part, in letters of any case (contract §12); null: no condition. No
 * index serves it: it looks at the rows that the other conditions leave, which are those of one account, as
 * the count of a list does.
 */
export const hasPart = (sql: Sql, column: ReturnType<Sql>, part: string | null) =>
  part === null ? sql`` : sql`AND strpos(lower(${column}), lower(${part}::text)) > 0`;
