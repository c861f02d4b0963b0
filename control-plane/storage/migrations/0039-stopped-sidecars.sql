-- When a sidecar said that it stops. Null: it has not said so since it connected last.
ALTER TABLE sidecars ADD COLUMN stopped_at_ms bigint;
