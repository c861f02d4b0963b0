-- What the gates and keys of an account take of the snapshot that its sidecars load (contract §4). Each has its bytes as they travel: JSON
-- within a JSON string, and the comma.
CREATE TABLE feed_items (
  item_id text COLLATE "C" PRIMARY KEY,
  feed_id text NOT NULL REFERENCES feeds,
  bytes bigint NOT NULL
);
-- Of all its items. Whoever changes one holds this row.
ALTER TABLE feeds ADD COLUMN items_bytes bigint NOT NULL DEFAULT 0,
  -- The revision whose item this version has counted itself.
  ADD COLUMN items_revision bigint NOT NULL DEFAULT 0;

-- The text of jsonb has blanks after colons and commas, which the snapshot has not.
INSERT INTO feed_items (item_id, feed_id, bytes)
SELECT g.gate_id, g.account_id, octet_length(to_json(replace(replace((SELECT row_to_json(item) FROM (
  SELECT g.gate_id, g.account_id, g.mode, g.version, g.policy_version, g.trust_level, g.constraints, g.routes, g.catalog_prices AS catalog,
    g.catalog_approvals) AS item)::text, '": ', '":'), ', ', ','))::text) - 1
FROM gates AS g WHERE g.deleted_at_ms IS NULL
UNION ALL
SELECT k.key_id, k.account_id, octet_length(to_json((SELECT row_to_json(item) FROM (
  SELECT k.key_id, k.key_hash, k.mode, k.scopes, k.expires_at_ms) AS item)::text)::text) - 1
FROM api_keys AS k WHERE k.revoked_at_ms IS NULL;

UPDATE feeds SET items_bytes = items.bytes
FROM (SELECT feed_id, sum(bytes)::bigint AS bytes FROM feed_items GROUP BY feed_id) AS items
WHERE feeds.feed_id = items.feed_id;
