-- Keys of sidecars whose receipts prove nothing any more (contract §9). As many as an operator revokes.
CREATE TABLE revoked_sidecar_keys (
  kid text PRIMARY KEY,
  revoked_at_ms bigint NOT NULL
);
