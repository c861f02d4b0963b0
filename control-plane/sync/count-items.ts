import { ApiError } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { ApiKeyId, GateId, IssuerId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { FeedId } from '../../shared/wire/sync/sync.ts';
import type { Change, FederationInFeed, GateBody } from '../../shared/wire/sync/sync-schema.ts';
import type { Transaction } from '../base/database.ts';
import { syncLimits } from './limits.ts';

/** A gate as `takeSnapshot` reads it. */
const gateOfSnapshot = (gate: GateBody): GateBody => ({
  ...gate,
  routes: gate.routes ?? null,
  catalog: gate.catalog ?? null,
  catalog_approvals: gate.catalog_approvals ?? [],
});

/** A snapshot travels as a JSON string, which escapes every quote once more. A comma for the two quotes. */
const bytesInSnapshot = (item: object): number => Buffer.byteLength(JSON.stringify(JSON.stringify(item))) - 1;

/**
 * Keeps the sum of what the gates and keys of an account take of its snapshot: a sidecar refuses one that is
 * larger than `limits.snapshotBytesMax`, and then serves nothing after its next start. The caller holds the
 * head of the feed, so no two writers pass the limit together. Throws `invalid_request` for a change that
 * grows past it. `items_revision` tells the trigger that counts for the version before that this one has.
 */
export async function countItem(tx: Transaction, feedId: FeedId, change: Change): Promise<void> {
  switch (change.kind) {
    case 'gate.put': {
      const bytes = bytesInSnapshot(gateOfSnapshot(change.body));
      return putItem(tx, { feedId, itemId: change.body.gate_id, bytes, max: syncLimits.gatesBytesMax });
    }
    case 'api_key.put': {
      const bytes = bytesInSnapshot(change.body);
      return putItem(tx, { feedId, itemId: change.body.key_id, bytes, max: limits.feedItemsBytesMax });
    }
    case 'gate.delete': {
      const { federation } = change.body;
      if (federation !== undefined)
        // Of another account it is bounded by number: this account cannot make it shorter.
        return federation.account_id === feedId ? putFederation(tx, feedId, federation) : undefined;
      return removeItem(tx, feedId, change.body.gate_id);
    }
    case 'api_key.delete':
      return removeItem(tx, feedId, change.body.key_id);
    case 'passport.standing':
    case 'issuer.standing':
    case 'account.standing':
    case 'signing_key.put':
      return;
  }
}

type ItemId = GateId | ApiKeyId | IssuerId;

const putFederation = (tx: Transaction, feedId: FeedId, federation: FederationInFeed): Promise<void> =>
  putItem(tx, {
    feedId,
    itemId: federation.issuer_id,
    bytes: bytesInSnapshot(federation),
    max: limits.feedItemsBytesMax,
  });

async function putItem(
  tx: Transaction,
  item: { readonly feedId: FeedId; readonly itemId: ItemId; readonly bytes: number; readonly max: number },
): Promise<void> {
  const { feedId, itemId, bytes, max } = item;
  const [row] = await tx<{ sum: number; growth: number }[]>`
    WITH before AS (SELECT ${bytes}::bigint - coalesce((SELECT bytes FROM feed_items WHERE item_id = ${itemId}), 0) AS growth),
    put AS (
      INSERT INTO feed_items (item_id, feed_id, bytes) VALUES (${itemId}, ${feedId}, ${bytes})
      ON CONFLICT (item_id) DO UPDATE SET bytes = excluded.bytes)
    UPDATE feeds SET items_bytes = items_bytes + growth, items_revision = revision FROM before
    WHERE feed_id = ${feedId} RETURNING items_bytes AS sum, growth`;
  const { sum, growth } = must(row, 'every account has a feed from its creation on');
  if (sum <= max || growth <= 0) return;
  throw new ApiError('invalid_request', {
    message: `The gates, keys and issuers of others of this account would take ${sum} bytes of the state that its sidecars load; at most ${max} are allowed. Delete gates or keys, or shorten constraints, routes and catalogs.`,
  });
}

async function removeItem(tx: Transaction, feedId: FeedId, itemId: ItemId): Promise<void> {
  await tx`
    WITH gone AS (DELETE FROM feed_items WHERE item_id = ${itemId} RETURNING bytes)
    UPDATE feeds SET items_bytes = items_bytes - gone.bytes, items_revision = revision FROM gone WHERE feed_id = ${feedId}`;
}
