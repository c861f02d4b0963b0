import type { Database, Transaction } from '../deps.ts';

/**
 * The time at the database, in Unix milliseconds, for a comparison with what another replica has written: all of them share this one
 * clock, and no other. It stands still within a transaction.
 */
export const databaseNowMs = (sql: Database | Transaction) => sql`(extract(epoch FROM now()) * 1000)::bigint`;
