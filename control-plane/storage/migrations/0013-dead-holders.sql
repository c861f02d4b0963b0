-- What the ledger needs to give back the units of a sidecar that died: which leases its PERMITs took from, and when its spool has ended.

-- The epoch in whose records the holder's PERMITs are found. Null: a sidecar that does not say; its units stay counted until their windows end.
ALTER TABLE lease_holders ADD COLUMN epoch text COLLATE "C";

-- By this number a record names the lease that it took from.
ALTER TABLE quota_leases ADD COLUMN lease_id bigint GENERATED ALWAYS AS IDENTITY;
CREATE UNIQUE INDEX quota_leases_by_id ON quota_leases (lease_id);

-- Units that PERMITs on record took from a lease and that are not subtracted from quota_leases.units yet. Rows are only added, so that
-- transactions that append records never wait for one another, nor for a lease call; the holder's next calls fold them in.
CREATE TABLE lease_posts (
  -- The reference also locks: while a record is being committed, its lease cannot be removed and given back.
  lease_id bigint NOT NULL REFERENCES quota_leases (lease_id) ON DELETE CASCADE,
  units bigint NOT NULL
);
CREATE INDEX lease_posts_of_lease ON lease_posts (lease_id);

-- is_whole: every number of the epoch was taken as a record that says what it took from leases. ended_at_ms: no record of it will follow.
ALTER TABLE sidecar_epochs ADD COLUMN is_whole boolean NOT NULL DEFAULT true, ADD COLUMN ended_at_ms bigint;
