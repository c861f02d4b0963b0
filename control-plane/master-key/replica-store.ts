import type { Database, Transaction } from '../base/database.ts';
import { masterKeyLimits } from './limits.ts';

/** A control plane that runs, and its master keys by their ids. */
export interface Replica {
  readonly replicaId: string;
  readonly sealsWith: string;
  readonly opens: readonly string[];
}

export interface SeenReplica extends Replica {
  readonly seenAtMs: number;
}

const now = (sql: Database | Transaction) => sql`(extract(epoch FROM clock_timestamp()) * 1000)::bigint`;

/** By the clock of the database, whichever way it jumps. */
const isLive = (sql: Database | Transaction) =>
  sql`abs(${now(sql)} - seen_at_ms) <= ${masterKeyLimits.replicaLiveMs}`;

/** This one runs. Removes some that crashed long ago. */
export async function putReplica(
  sql: Database | Transaction,
  { replicaId, sealsWith, opens }: Replica,
): Promise<void> {
  await sql`
    WITH gone AS (
      DELETE FROM replicas
      WHERE replica_id <> ${replicaId} AND abs(${now(sql)} - seen_at_ms) > ${masterKeyLimits.replicaKeptMs}
    )
    INSERT INTO replicas (replica_id, seals_with, opens, seen_at_ms)
    VALUES (${replicaId}, ${sealsWith}, ${[...opens]}, ${now(sql)})
    ON CONFLICT (replica_id) DO UPDATE SET
      seals_with = excluded.seals_with, opens = excluded.opens, seen_at_ms = excluded.seen_at_ms`;
}

/** The others that run, as far as is known. */
export const readOthers = (sql: Database | Transaction, replicaId: string): Promise<SeenReplica[]> =>
  sql<SeenReplica[]>`
    SELECT replica_id AS "replicaId", seals_with AS "sealsWith", opens, seen_at_ms AS "seenAtMs" FROM replicas
    WHERE replica_id <> ${replicaId} AND ${isLive(sql)} ORDER BY replica_id`;

/** It has ended. */
export async function removeReplica(sql: Database, replicaId: string): Promise<void> {
  await sql`DELETE FROM replicas WHERE replica_id = ${replicaId}`;
}
