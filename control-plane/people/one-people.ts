import type { AccountId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Database, Transaction } from '../base/database.ts';
import { peopleLimits } from './limits.ts';

/** Stands for whoever made what has no maker on record: the first keys of an account, and older links. */
export const unknownMaker = '';

/** Who is one person with whom, of people and keys by their ids. */
export interface OnePeople {
  /** The same for all who count as one person. Of an id that is not known: the id. */
  oneOf(id: string): string;
  /** All who are known to be one with one of these, and these. */
  allOneWith(ids: readonly string[]): readonly string[];
}

/**
 * Whoever could read the link of an invitation, and those who came by it, are one person for a year, because
 * one of them may have opened the links of all (contract §8). A key's links are read by whoever holds it, and
 * by whoever made it. `askers`: further people and keys that are looked at.
 */
export async function findOnePeople(
  sql: Database | Transaction,
  accountId: AccountId,
  { nowMs, askers = [] }: { readonly nowMs: UnixMillis; readonly askers?: readonly string[] },
): Promise<OnePeople> {
  const edges = await sql<{ readonly one: string; readonly other: string }[]>`
    WITH RECURSIVE edges AS (
      SELECT user_id COLLATE "C" AS one, coalesce(invited_by, ${unknownMaker}) COLLATE "C" AS other FROM users
      WHERE account_id = ${accountId} AND came_by = 'link' AND accepted_at_ms > ${nowMs - peopleLimits.onePersonMs}
      UNION
      SELECT asker COLLATE "C", asker COLLATE "C" FROM unnest(${[...askers]}::text[]) AS asker
      UNION
      SELECT other, coalesce(made.maker, ${unknownMaker}) FROM edges
      LEFT JOIN LATERAL (
        ${makersOf(sql, accountId, sql`edges.other`)}
        UNION ALL
        -- Of people who were removed: by whose link they had come.
        SELECT before ->> 'invited_by' FROM audit_entries
        WHERE account_id = ${accountId} AND mode IN ('live', 'test') AND target = other
          AND operation = 'deleteUser' AND before ->> 'came_by' = 'link' AND created_at_ms > ${nowMs - peopleLimits.onePersonMs}
      ) AS made ON true
      WHERE starts_with(other, 'key_') OR made.maker IS NOT NULL
    ) SELECT one, other FROM edges`;
  return unite(edges);
}

/** Who made the key, and who rolled another one into it. By the audit, which keeps every maker. */
export const makersOf = (
  sql: Database | Transaction,
  accountId: AccountId,
  key: ReturnType<Database | Transaction>,
) => sql`
  SELECT actor_id AS maker FROM audit_entries
  WHERE account_id = ${accountId} AND mode IN ('live', 'test') AND target = ${key} AND operation = 'createApiKey'
  UNION ALL
  -- The entry of a roll is about the old key, and names the new one.
  SELECT actor_id FROM audit_entries
  WHERE account_id = ${accountId} AND mode IN ('live', 'test') AND operation = 'rollApiKey'
    AND after ->> 'key_id' = ${key}`;

function unite(edges: readonly { readonly one: string; readonly other: string }[]): OnePeople {
  const above = new Map<string, string>();
  const oneOf = (id: string): string => {
    let found = id;
    for (let next = above.get(found); next !== undefined; next = above.get(found)) found = next;
    return found;
  };
  const known = new Set<string>();
  for (const { one, other } of edges) {
    known.add(one).add(other);
    const [from, to] = [oneOf(one), oneOf(other)];
    if (from !== to) above.set(from, to);
  }
  return {
    oneOf,
    allOneWith: (ids) => {
      const wanted = new Set(ids.map(oneOf));
      return [...new Set([...ids, ...[...known].filter((id) => wanted.has(oneOf(id)))])];
    },
  };
}
