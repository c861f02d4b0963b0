-- Proofs of possession that are accepted once over all sidecars and replicas (contract §5).

CREATE TABLE used_proofs (
  -- The first 16 bytes of SHA-256 of its name, base64url.
  proof text COLLATE "C" PRIMARY KEY,
  -- Whose use it was: the same claim may ask again.
  claim text NOT NULL,
  used_at_ms bigint NOT NULL
);

CREATE INDEX used_proofs_by_time ON used_proofs (used_at_ms);
