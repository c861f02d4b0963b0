import type { Sql, TransactionSql } from 'postgres';

/**
 * PostgreSQL's `bigint` arrives as a JavaScript number: counts, revisions and milliseconds all stay below
 * 2^53.
 */
export type PostgresTypes = { readonly bigint: number };
export type Database = Sql<PostgresTypes>;
export type Transaction = TransactionSql<PostgresTypes>;
