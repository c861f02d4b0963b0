import type { Database } from '../../../control-plane/base/database.ts';

/**
 * The partitions of records as if the database's clock were ahead: what chooses a partition asks
 * `record_month` alone. Ids have the times that they have, and nothing is left of the hour in which all
 * partitions are looked through.
 */
export async function moveMonths(sql: Database, ahead: string): Promise<void> {
  const monthOf = (moment: string) =>
    `date_part('year', (${moment}) AT TIME ZONE 'UTC')::bigint * 12 + date_part('month', (${moment}) AT TIME ZONE 'UTC')::bigint - 1`;
  await sql.unsafe(`
    CREATE OR REPLACE FUNCTION record_month(moment timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
      RETURN ${monthOf(`moment + interval '${ahead}'`)};
    CREATE OR REPLACE FUNCTION records_from(decided_ms bigint) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE
      RETURN (${monthOf('least(to_timestamp((decided_ms - 3600000) / 1000), statement_timestamp())')}) << 36`);
}
