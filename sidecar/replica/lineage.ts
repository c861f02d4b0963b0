import type { AccountId } from '../../shared/model/ids.ts';
import type { FeedPosition, Position } from '../../shared/wire/sync/sync.ts';
import { globalFeed } from '../../shared/wire/sync/sync.ts';
import {
  readSnapshot,
  type SealedEntry,
  type SignedSnapshot,
  type Snapshot,
} from '../../shared/wire/sync/sync-schema.ts';

/** The history that a state is of, and its place there. */
export interface Lineage extends Position {
  readonly accountId: AccountId;
  /** Null: the control plane is of a version that names none. */
  readonly generation: string | null;
}

/**
 * Whether what was in force with that lineage is missing in the history of this snapshot (contract §17). A
 * history that a recovery has begun names the one before it; then everything there was settled.
 */
export function hasGoneBack(snapshot: Snapshot, since: Lineage): boolean {
  if (snapshot.account_id !== since.accountId) return false;
  const { generation, earlier_generations: earlier = [] } = snapshot;
  if (since.generation !== null && generation !== undefined && generation !== since.generation)
    return !earlier.includes(since.generation);
  return (
    isBehind({ revision: snapshot.account_revision, mark: snapshot.account_mark }, since.account) ||
    isBehind({ revision: snapshot.global_revision, mark: snapshot.global_mark }, since.global)
  );
}

/** A mark that was trimmed, or of the beginning, says nothing. */
const isBehind = (told: FeedPosition, known: FeedPosition): boolean =>
  told.revision < known.revision ||
  (told.revision === known.revision && told.mark !== '' && told.mark !== known.mark);

/** Of a state on disk; null where it cannot be read. Not verified. */
export function lineageOf({
  signed,
  entries,
}: {
  readonly signed: SignedSnapshot;
  readonly entries: readonly SealedEntry[];
}): Lineage | null {
  try {
    const { snapshot } = readSnapshot(signed.snapshot);
    const lastOf = (isGlobal: boolean, first: FeedPosition): FeedPosition => {
      const last = entries.findLast(({ feed_id }) => (feed_id === globalFeed) === isGlobal);
      return last === undefined ? first : { revision: last.revision, mark: last.signature };
    };
    return {
      accountId: snapshot.account_id,
      generation: snapshot.generation ?? null,
      account: lastOf(false, { revision: snapshot.account_revision, mark: snapshot.account_mark }),
      global: lastOf(true, { revision: snapshot.global_revision, mark: snapshot.global_mark }),
    };
  } catch {
    return null;
  }
}
