-- How long the decisions of a sidecar took in the last minute of which it spoke. Null: it said nothing yet.
ALTER TABLE sidecars
  ADD COLUMN decisions bigint,
  ADD COLUMN decision_p50_ms double precision,
  ADD COLUMN decision_p99_ms double precision;
