/**
 * Room `control-plane/sync`: the change feed. `heartbeat.ts`, `take-snapshot.ts` and `read-changes.ts` serve
 * sidecars; `propagation.ts` counts those that have a change in force, and `count-items.ts` the bytes of a
 * snapshot.
 */

import { assert, must } from '../../shared/errors/assert.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { type FeedId, feedChannel, globalFeed } from '../../shared/wire/sync.ts';
import type { Change, ChangeEntry } from '../../shared/wire/sync-schema.ts';
import { signChange } from '../../shared/wire/sync-signature.ts';
import type { Transaction } from '../base/database.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { beginReading, together } from '../storage/together.ts';
import { countItem } from './count-items.ts';

type ChangeDeps = Pick<SigningDeps, 'sql' | 'clock' | 'bus' | 'signingKeys'>;

/**
 * Publishes to the sidecars of this feed; resolves to the revision of the change once written, before the
 * commit.
 */
export type WriteChange = (feedId: FeedId, change: Change) => Promise<number>;

export interface Beginning {
  /** The first statements of `work` only read or lock, so they are sent with the BEGIN. Default: no. */
  readonly readsFirst?: boolean;
}

/**
 * A transaction whose changes sidecars must see (ARCHITECTURE.md, "The change feed"): what `work` writes and
 * what it publishes to the feeds is committed together or not at all. Resolves to what `work` returns, after
 * the commit and the push.
 *
 * Revisions of a feed have no holes and are in commit order, because a writer holds the row of the feed's
 * head from its first change until its commit: the next writer gets its number only then. A head is therefore
 * a lock that all writers of that feed share: call `change` as late in `work` as possible, and do nothing
 * slow after it. Heads are locked in one order, accounts by id and then global, to prevent deadlocks; a call
 * out of order is a bug and throws.
 *
 * If the outcome of the commit is unknown (the connection broke), this rejects and pushes nothing. If it was
 * committed after all, sidecars learn of it from the next heartbeat.
 */
export async function changeTransaction<T>(
  deps: ChangeDeps,
  work: (tx: Transaction, change: WriteChange) => Promise<T>,
  { readsFirst = false }: Beginning = {},
): Promise<T> {
  const entries: ChangeEntry[] = [];
  const inTransaction = async (tx: Transaction) => {
    let lockedLast: FeedId | null = null;
    const change: WriteChange = async (feedId, what) => {
      assert(
        lockedLast === null || !locksBefore(feedId, lockedLast),
        'heads are locked in order, global last',
      );
      lockedLast = feedId;
      const entry = await writeChange(tx, deps, feedId, what);
      entries.push(entry);
      return entry.revision;
    };
    // In an object, because postgres.js would await the elements of an array.
    return { result: await work(tx, change) };
  };
  const { result } = await (readsFirst
    ? beginReading(deps.sql, inTransaction)
    : deps.sql.begin(inTransaction));
  for (const entry of entries) deps.bus.publish(feedChannel(entry.feed_id), JSON.stringify(entry));
  return result;
}

/** Creates the feed of a new account, in the transaction that creates the account. */
export async function createFeed(tx: Transaction, accountId: AccountId): Promise<void> {
  await tx`INSERT INTO feeds (feed_id, revision) VALUES (${accountId}, 0)`;
}

async function writeChange(
  tx: Transaction,
  deps: ChangeDeps,
  feedId: FeedId,
  change: Change,
): Promise<ChangeEntry> {
  const rows = await tx<{ revision: number }[]>`
    UPDATE feeds SET revision = revision + 1 WHERE feed_id = ${feedId} RETURNING revision`;
  const { revision } = must(rows[0], 'every account has a feed from its creation on');
  // Separate statements: the one that waited for the head does not see what the previous writer committed in
  // the meantime.
  const [, [last]] = await together([
    () => countItem(tx, feedId, change),
    () => tx<{ signature: string }[]>`
      SELECT signature FROM changes WHERE feed_id = ${feedId} AND revision = ${revision - 1}`,
  ]);
  const place = { feedId, revision, previous: last?.signature ?? '' };
  const entry = signChange(deps.signingKeys.current('sync'), place, change);
  // Sent as text: the driver would encode a jsonb parameter a second time.
  await tx`
    INSERT INTO changes (feed_id, revision, kind, body, signing_key_id, signature, created_at_ms)
    VALUES (${feedId}, ${revision}, ${entry.kind}, ${JSON.stringify(entry.body)}::text::jsonb,
      ${entry.signing_key_id}, ${entry.signature}, ${deps.clock.now()})`;
  return entry;
}

function locksBefore(feedId: FeedId, other: FeedId): boolean {
  if (other === globalFeed) return feedId !== globalFeed;
  return feedId !== globalFeed && feedId < other;
}
