-- What a control plane of 0.2.0 does not keep up, where it runs beside this version or in its place again.

-- A sidecar that calls it has not stopped, or a revocation would not wait for it.
CREATE FUNCTION sidecar_is_back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.stopped_at_ms := NULL;
  RETURN NEW;
END $$;
CREATE TRIGGER sidecar_is_back BEFORE UPDATE OF last_seen_at_ms ON sidecars FOR EACH ROW
  WHEN (OLD.stopped_at_ms IS NOT NULL AND NEW.stopped_at_ms = OLD.stopped_at_ms)
  EXECUTE FUNCTION sidecar_is_back();

-- The revision whose item this version has counted itself.
ALTER TABLE feeds ADD COLUMN items_revision bigint NOT NULL DEFAULT 0;

-- Counts as 0040 does. It refuses nothing: the version before knows no limit.
CREATE FUNCTION count_feed_item() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  item text := coalesce(NEW.body->>'gate_id', NEW.body->>'key_id');
  before bigint;
  after bigint := 0;
BEGIN
  IF EXISTS (SELECT FROM feeds WHERE feed_id = NEW.feed_id AND items_revision = NEW.revision) THEN
    RETURN NULL;
  END IF;
  SELECT bytes INTO before FROM feed_items WHERE item_id = item;
  IF NEW.kind IN ('gate.put', 'api_key.put') THEN
    after := octet_length(to_json(replace(replace((CASE WHEN NEW.kind = 'gate.put'
      THEN '{"routes": null, "catalog": null, "catalog_approvals": []}'::jsonb || NEW.body
      ELSE NEW.body END)::text, '": ', '":'), ', ', ','))::text) - 1;
    INSERT INTO feed_items (item_id, feed_id, bytes) VALUES (item, NEW.feed_id, after)
    ON CONFLICT (item_id) DO UPDATE SET bytes = excluded.bytes;
  ELSE
    DELETE FROM feed_items WHERE item_id = item;
  END IF;
  UPDATE feeds SET items_bytes = items_bytes + after - coalesce(before, 0) WHERE feed_id = NEW.feed_id;
  RETURN NULL;
END $$;
CREATE TRIGGER count_feed_item AFTER INSERT ON changes FOR EACH ROW
  WHEN (NEW.kind IN ('gate.put', 'gate.delete', 'api_key.put', 'api_key.delete'))
  EXECUTE FUNCTION count_feed_item();
