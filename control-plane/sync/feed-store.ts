import { must } from '../../shared/errors/assert.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { type FeedId, type FeedPosition, globalFeed } from '../../shared/wire/sync/sync.ts';
import type { ChangeEntry } from '../../shared/wire/sync/sync-schema.ts';
import type { Database, Transaction } from '../base/database.ts';
import { databaseNowMs } from '../storage/database-clock.ts';
import { syncLimits } from './limits.ts';

/** The newest revision of an account's feed and of the global one. */
export interface Heads {
  readonly account: number;
  readonly global: number;
}

export async function readHeads(sql: Database | Transaction, accountId: AccountId): Promise<Heads> {
  const rows = await sql<{ feed_id: FeedId; revision: number }[]>`
    SELECT feed_id, revision FROM feeds WHERE feed_id IN (${accountId}, ${globalFeed})`;
  const head = (feedId: FeedId) =>
    must(
      rows.find((row) => row.feed_id === feedId)?.revision,
      'every account has a feed, and the global one is there',
    );
  return { account: head(accountId), global: head(globalFeed) };
}

/**
 * The head of the global feed, and of each account that has a connected sidecar: feed, revision, and the
 * signature there.
 */
export const heardHeads = (sql: Database) =>
  sql`
    SELECT json_agg(json_build_array(feed_id, revision, coalesce(signature, '')))
    FROM feeds LEFT JOIN changes USING (feed_id, revision) WHERE feed_id = ${globalFeed}
      OR feed_id IN (SELECT account_id FROM sidecars
        WHERE last_seen_at_ms > ${databaseNowMs(sql)} - ${limits.sidecarConnectedMs}::bigint)`;

/** The signature of the entry at this revision; empty if there is none. */
export async function readMark(
  sql: Database | Transaction,
  feedId: FeedId,
  revision: number,
): Promise<string> {
  const [row] = await sql<{ signature: string }[]>`
    SELECT signature FROM changes WHERE feed_id = ${feedId} AND revision = ${revision}`;
  return row?.signature ?? '';
}

/**
 * The entries after `after`, at most `countMax`, without holes. Null if only a snapshot helps: entries were
 * removed, or the position belongs to another history, as after a restore.
 */
export async function readEntries(
  sql: Database,
  feed: {
    readonly feedId: FeedId;
    readonly after: FeedPosition;
    readonly head: number;
    readonly countMax: number;
  },
): Promise<readonly ChangeEntry[] | null> {
  const { feedId, after, head, countMax } = feed;
  if (after.revision > head) return null;
  // Includes the entry at the position, to check that the sidecar shares this history.
  const rows = await sql<ChangeEntry[]>`
    SELECT feed_id, revision, coalesce(lag(signature) OVER (ORDER BY revision), '') AS previous,
      kind, body, signing_key_id, signature FROM changes
    WHERE feed_id = ${feedId} AND revision >= ${after.revision} ORDER BY revision LIMIT ${countMax + 1}`;
  const hasPosition = rows[0]?.revision === after.revision;
  if ((hasPosition ? rows[0]?.signature : '') !== after.mark) return null;
  const entries = hasPosition ? rows.slice(1) : rows.slice(0, countMax);
  if (entries.length === 0 && after.revision < head && countMax > 0) return null;
  // Replicas remove entries by their own clocks, so there may be a hole for a moment.
  return entries.every((entry, index) => entry.revision === after.revision + 1 + index) ? entries : null;
}

/**
 * Removes changes older than `syncLimits.changeRetentionMs`, a bounded number at a time, skipping rows that
 * other replicas lock. The newest change of each feed stays: the next one refers to it, and sidecars prove
 * their history with it.
 */
export async function trimChanges(sql: Database, nowMs: UnixMillis): Promise<number> {
  const removed = await sql`
    DELETE FROM changes WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM changes WHERE created_at_ms < ${nowMs - syncLimits.changeRetentionMs}
        AND revision < (SELECT head.revision FROM feeds head WHERE head.feed_id = changes.feed_id)
      ORDER BY created_at_ms LIMIT ${syncLimits.changesPerTrimMax} FOR UPDATE SKIP LOCKED))`;
  return removed.count;
}

/** Lets feeds go on after these revisions, so that none of them is given out twice. */
export async function raiseFeeds(
  tx: Transaction,
  heads: readonly { readonly feedId: FeedId; readonly revision: number }[],
): Promise<void> {
  if (heads.length === 0) return;
  await tx`
    UPDATE feeds SET revision = greatest(feeds.revision, known.revision)
    FROM unnest(${heads.map(({ feedId }) => feedId)}::text[], ${heads.map(({ revision }) => revision)}::bigint[])
      AS known (feed_id, revision)
    WHERE feeds.feed_id = known.feed_id`;
}
