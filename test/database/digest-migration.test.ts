import { beforeAll, expect, it } from 'vitest';
import { migrate } from '../../control-plane/storage/migrate.ts';
import { readEntries, readHeads, readMark } from '../../control-plane/sync/feed-store.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { globalFeed } from '../../shared/wire/sync/sync.ts';
import { migrateUpTo } from '../support/database/earlier-migrations.ts';
import { useDatabase } from '../support/database/use-database.ts';

/** The last migration before the global feed carried digests. */
const earlierMax = 18;
const accountId = 'acct_00000000000000000000000001' as AccountId;

const database = useDatabase({ isEmpty: true });
beforeAll(async () => {
  await migrateUpTo(database.sql, earlierMax);
  const { sql } = database;
  await sql`
    INSERT INTO accounts (account_id, name, plan, status, is_operator, created_at_ms)
    VALUES (${accountId}, 'of before', 'enterprise', 'active', true, 0)`;
  await sql`INSERT INTO feeds (feed_id, revision) VALUES (${accountId}, 1)`;
  await sql`UPDATE feeds SET revision = 3 WHERE feed_id = ${globalFeed}`;
  await sql`
    INSERT INTO changes (feed_id, revision, kind, body, signing_key_id, signature, created_at_ms) VALUES
      (${accountId}, 1, 'gate.delete', '{"gate_id": "gate_1"}', 'k', 'own-1', 0),
      (${globalFeed}, 1, 'passport.standing', '{"passport_id": "pass_1", "standing": "revoked"}', 'k', 'mark-1', 0),
      (${globalFeed}, 2, 'signing_key.put', '{"kid": "k"}', 'k', 'mark-2', 0),
      (${globalFeed}, 3, 'issuer.standing', '{"issuer_id": "iss_3", "standing": "suspended"}', 'k', 'mark-3', 0)`;
  await sql`
    INSERT INTO sidecars (sidecar_id, account_id, connection_id, connected_at_ms, last_seen_at_ms,
      acked_account_revision, acked_global_revision, clock_offset_ms)
    VALUES ('side_1', ${accountId}, '5-secret', 5, 5, 1, 3, 0)`;
  await migrate(database.sql);
});

it('leaves no id in the global feed, and where it has come to', async () => {
  const { sql } = database;
  const rows = await sql`SELECT revision, body, signature FROM changes WHERE feed_id = ${globalFeed}`;
  expect(rows).toEqual([{ revision: 3, body: {}, signature: 'mark-3' }]);
  expect(await readHeads(sql, accountId)).toEqual({ account: 1, global: 3 });
  expect(await readMark(sql, globalFeed, 3)).toBe('mark-3');
  expect(await sql`SELECT body FROM changes WHERE feed_id = ${accountId}`).toHaveLength(1);
});

it('sends a sidecar that is behind to a snapshot, and lets one go on that stands where a snapshot is', async () => {
  const { sql } = database;
  const after = (revision: number) =>
    readEntries(sql, {
      feedId: globalFeed,
      after: { revision, mark: `mark-${revision}` },
      head: 3,
      countMax: 10,
    });
  expect([await after(1), await after(2)]).toEqual([null, null]);
  expect(await after(3)).toEqual([]);
});

it('makes every sidecar reconnect, so that one of the previous version is turned away', async () => {
  expect(await database.sql`SELECT connection_id FROM sidecars`).toEqual([{ connection_id: '' }]);
});

it('refuses an entry with an id, as a control plane of the version before would write it', async () => {
  const { sql } = database;
  const write = (body: string) => sql`
    INSERT INTO changes (feed_id, revision, kind, body, signing_key_id, signature, created_at_ms)
    VALUES (${globalFeed}, 4, 'passport.standing', ${body}::text::jsonb, 'k', 'mark-4', 0)`;
  await expect(write('{"passport_id": "pass_4", "standing": "revoked"}')).rejects.toThrow(
    'standings_by_digest',
  );
  await write('{"passport": "digest", "standing": "revoked"}');
});
