-- Changes that a control plane of 0.2.0 writes, where it runs beside this version or in its place again.

-- Counts as 0039 does, once however often. It refuses nothing: the version before knows no limit.
CREATE FUNCTION count_item(feed text, kind text, body jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  item text := coalesce(body->>'gate_id', body->>'key_id');
  before bigint;
  after bigint := 0;
BEGIN
  SELECT bytes INTO before FROM feed_items WHERE item_id = item;
  IF kind IN ('gate.put', 'api_key.put') THEN
    after := octet_length(to_json(replace(replace((CASE WHEN kind = 'gate.put'
      THEN '{"routes": null, "catalog": null, "catalog_approvals": []}'::jsonb || body
      ELSE body END)::text, '": ', '":'), ', ', ','))::text) - 1;
    INSERT INTO feed_items (item_id, feed_id, bytes) VALUES (item, feed, after)
    ON CONFLICT (item_id) DO UPDATE SET bytes = excluded.bytes;
  ELSE
    DELETE FROM feed_items WHERE item_id = item;
  END IF;
  UPDATE feeds SET items_bytes = items_bytes + after - coalesce(before, 0) WHERE feed_id = feed;
END $$;
CREATE FUNCTION count_feed_item() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM feeds WHERE feed_id = NEW.feed_id AND items_revision = NEW.revision) THEN
    PERFORM count_item(NEW.feed_id, NEW.kind, NEW.body);
  END IF;
  RETURN NULL;
END $$;
-- Nobody writes a change from here to the commit.
CREATE TRIGGER count_feed_item AFTER INSERT ON changes FOR EACH ROW
  WHEN (NEW.kind IN ('gate.put', 'gate.delete', 'api_key.put', 'api_key.delete'))
  EXECUTE FUNCTION count_feed_item();

-- What the version before changed while 0039 counted, and since. A change is open for half a minute at most.
DO $$
DECLARE
  change record;
BEGIN
  FOR change IN
    SELECT feed_id, kind, body FROM changes
    WHERE kind IN ('gate.put', 'gate.delete', 'api_key.put', 'api_key.delete') AND created_at_ms >= (
      SELECT min(applied_at_ms) - 60000
      FROM (SELECT * FROM migrations UNION ALL SELECT * FROM expansions) AS applied WHERE number = 39)
    ORDER BY feed_id, revision
  LOOP
    PERFORM count_item(change.feed_id, change.kind, change.body);
  END LOOP;
END $$;
