-- The global feed names no passport, issuer or account any more, but digests of their ids (decisions §11).

-- Entries with ids go. The newest stays without its content, because its signature says where the feed has come to: a sidecar that is
-- behind it finds no entry that follows its own, and loads a snapshot.
DELETE FROM changes WHERE feed_id = 'global'
  AND revision < (SELECT revision FROM feeds WHERE feed_id = 'global');
UPDATE changes SET body = '{}' WHERE feed_id = 'global' AND kind LIKE '%.standing';

-- A control plane of the version before would write ids that no sidecar of this one can read: it is refused, loudly, and so changes nothing.
ALTER TABLE changes ADD CONSTRAINT standings_by_digest
  CHECK (kind NOT LIKE '%.standing' OR NOT body ?| ARRAY['passport_id', 'issuer_id', 'account_id']);

-- No connection is known any more: each sidecar connects anew, and one of the version before is turned away, which could read no change.
UPDATE sidecars SET connection_id = '';
