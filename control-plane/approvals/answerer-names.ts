import type { AccountId } from '../../shared/model/ids.ts';
import type { Database } from '../base/database.ts';

/** The names today of these people and keys of the account; those of removed ones are missing. */
export async function readNames(
  sql: Database,
  accountId: AccountId,
  ids: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  if (ids.length === 0) return new Map();
  const rows = await sql<{ id: string; name: string }[]>`
    SELECT user_id AS id, name FROM users WHERE account_id = ${accountId} AND user_id = ANY(${[...ids]}::text[])
    UNION ALL
    SELECT key_id, name FROM api_keys WHERE account_id = ${accountId} AND key_id = ANY(${[...ids]}::text[])`;
  return new Map(rows.map(({ id, name }) => [id, name]));
}
