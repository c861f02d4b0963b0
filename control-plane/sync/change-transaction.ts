/**
 * Room `control-plane/sync`: the change feed. `heartbeat.ts`, `take-snapshot.ts` and `read-changes.ts` serve
 * sidecars; `propagation.ts` counts those that have a change in force, and `count-items.ts` the bytes of a
 * snapshot.
 */

import { assert, must } from '../../shared/errors/assert.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { type FeedId, feedChannel, globalFeed } from '../../shared/wire/sync/sync.ts';
import type { Change, ChangeEntry } from '../../shared/wire/sync/sync-schema.ts';
import { signChange } from '../../shared/wire/sync/sync-signature.ts';
import type { Transaction } from '../base/database.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { beginReading, together } from '../storage/together.ts';
import { countItem } from './count-items.ts';
import { heardHeadsOf } from './heard-heads.ts';
import { syncLimits } from './limits.ts';

type ChangeDeps = Pick<SigningDeps, 'sql' | 'clock' | 'bus' | 'signingKeys'>;

/**
 * Publishes to the sidecars of this feed; resolves to the revision of the last change once written, before
 * the commit. Of more than `syncLimits.changesAtOnceMax` the rest have sidecars load a snapshot.
 */
export type WriteChange = (feedId: FeedId, ...changes: readonly Change[]) => Promise<number>;

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
    const change: WriteChange = async (feedId, ...what) => {
      assert(
        lockedLast === null || !locksBefore(feedId, lockedLast),
        'heads are locked in order, global last',
      );
      lockedLast = feedId;
      const { written, revision } = await writeChanges(tx, deps, feedId, what);
      entries.push(...written);
      return revision;
    };
    // In an object, because postgres.js would await the elements of an array.
    return { result: await work(tx, change) };
  };
  const { result } = await (readsFirst
    ? beginReading(deps.sql, inTransaction)
    : deps.sql.begin(inTransaction));
  for (const entry of entries) {
    heardHeadsOf(deps.sql).noteChange(entry.feed_id, deps.clock.monotonic());
    deps.bus.publish(feedChannel(entry.feed_id), JSON.stringify(entry));
  }
  return result;
}

/** Creates the feed of a new account, in the transaction that creates the account. */
export async function createFeed(tx: Transaction, accountId: AccountId): Promise<void> {
  await tx`INSERT INTO feeds (feed_id, revision) VALUES (${accountId}, 0)`;
}

async function writeChanges(
  tx: Transaction,
  deps: ChangeDeps,
  feedId: FeedId,
  changes: readonly Change[],
): Promise<{ readonly written: readonly ChangeEntry[]; readonly revision: number }> {
  const told = changes.slice(0, syncLimits.changesAtOnceMax);
  // A revision without an entry is a hole, which only a snapshot closes.
  const steps = told.length + (told.length < changes.length ? 1 : 0);
  const rows = await tx<{ revision: number }[]>`
    UPDATE feeds SET revision = revision + ${steps} WHERE feed_id = ${feedId} RETURNING revision`;
  const { revision } = must(rows[0], 'every account has a feed from its creation on');
  const before = revision - steps;
  // Separate statements: the one that waited for the head does not see what the previous writer committed in
  // the meantime.
  const [[last]] = await together([
    () => tx<{ signature: string }[]>`
      SELECT signature FROM changes WHERE feed_id = ${feedId} AND revision = ${before}`,
    ...told.map((change) => () => countItem(tx, feedId, change)),
  ]);
  const key = deps.signingKeys.current('sync');
  let previous = last?.signature ?? '';
  const written = told.map((change, place) => {
    const entry = signChange(key, { feedId, revision: before + 1 + place, previous }, change);
    previous = entry.signature;
    return entry;
  });
  // Sent as text: the driver would encode a jsonb parameter a second time.
  await tx`
    INSERT INTO changes (feed_id, revision, kind, body, signing_key_id, signature, created_at_ms)
    SELECT ${feedId}, ${before} + place, kind, body::jsonb, ${key.kid}, signature, ${deps.clock.now()}
    FROM unnest(${written.map(({ kind }) => kind)}::text[], ${written.map(({ body }) => JSON.stringify(body))}::text[],
      ${written.map(({ signature }) => signature)}::text[]) WITH ORDINALITY AS new (kind, body, signature, place)`;
  return { written, revision };
}

function locksBefore(feedId: FeedId, other: FeedId): boolean {
  if (other === globalFeed) return feedId !== globalFeed;
  return feedId !== globalFeed && feedId < other;
}
