import type { Owner } from '../../shared/model/owner.ts';
import type { Database, Transaction } from '../base/database.ts';
import type { RecordMonth } from './archive-store.ts';
import { attestationsLimits } from './limits.ts';

/** Days; null: as long as the operator keeps records. */
export async function readRetention(sql: Database | Transaction, owner: Owner): Promise<number | null> {
  const [row] = await sql<{ days: number }[]>`
    SELECT days FROM retentions WHERE account_id = ${owner.accountId} AND mode = ${owner.mode}`;
  return row?.days ?? null;
}

/** Resolves to what it was. Changes of one account and mode wait for each other. */
export async function writeRetention(
  tx: Transaction,
  owner: Owner,
  days: number | null,
): Promise<number | null> {
  const [row] = await tx<{ days: number }[]>`
    SELECT days FROM retentions WHERE account_id = ${owner.accountId} AND mode = ${owner.mode} FOR UPDATE`;
  if (days === null) {
    await tx`DELETE FROM retentions WHERE account_id = ${owner.accountId} AND mode = ${owner.mode}`;
  } else {
    await tx`
      INSERT INTO retentions (account_id, mode, days) VALUES (${owner.accountId}, ${owner.mode}, ${days})
      ON CONFLICT (account_id, mode) DO UPDATE SET days = excluded.days`;
  }
  return row?.days ?? null;
}

/** An account and mode whose records of before this month are older than it keeps them. */
export interface DueOwner {
  readonly owner: Owner;
  readonly before: RecordMonth;
  /** Its archive before that month has begun: `continueAccountArchive` alone is left to do. */
  readonly hasBegun: boolean;
}

/**
 * The next so many in the order of account and mode, by PostgreSQL's clock. What has begun comes first for
 * its account, whatever the setting says by now.
 */
export async function dueOwners(
  sql: Database,
  after: Owner | null,
): Promise<{ readonly due: readonly DueOwner[]; readonly last: Owner | null }> {
  const { dueOwnersMax: max } = attestationsLimits;
  const rows = await sql<(Owner & { before: RecordMonth; isDone: boolean | null })[]>`
    SELECT owner.account_id AS "accountId", owner.mode,
      CASE WHEN known.is_open THEN known.before_month
        ELSE record_month(statement_timestamp() - make_interval(days => days)) END AS before,
      CASE WHEN known.is_open THEN false
        WHEN days IS NULL THEN true
        WHEN known.before_month >= record_month(statement_timestamp() - make_interval(days => days)) THEN true
      END AS "isDone"
    FROM (SELECT account_id, mode FROM retentions
      UNION SELECT account_id, mode FROM account_archives WHERE done_at_ms IS NULL) AS owner
    LEFT JOIN retentions USING (account_id, mode)
    LEFT JOIN LATERAL (
      SELECT before_month, done_at_ms IS NULL AS is_open FROM account_archives AS archive
      WHERE archive.account_id = owner.account_id AND archive.mode = owner.mode
      ORDER BY done_at_ms IS NULL DESC, before_month DESC LIMIT 1
    ) AS known ON true
    WHERE ${after === null ? sql`true` : sql`(owner.account_id, owner.mode) > (${after.accountId}, ${after.mode})`}
    ORDER BY owner.account_id, owner.mode LIMIT ${max}`;
  const last = rows.length < max ? null : (rows.at(-1) ?? null);
  return {
    due: rows.flatMap(({ accountId, mode, before, isDone }) =>
      isDone === true ? [] : [{ owner: { accountId, mode }, before, hasBegun: isDone === false }],
    ),
    last: last === null ? null : { accountId: last.accountId, mode: last.mode },
  };
}

/** Whether the account still keeps no record from before that month. */
export async function isDueBefore(tx: Transaction, owner: Owner, before: RecordMonth): Promise<boolean> {
  const rows = await tx`
    SELECT FROM retentions WHERE account_id = ${owner.accountId} AND mode = ${owner.mode}
      AND record_month(statement_timestamp() - make_interval(days => days)) >= ${before}`;
  return rows.length > 0;
}
