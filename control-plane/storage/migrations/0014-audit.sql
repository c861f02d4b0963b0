-- Who changed what through the API (decisions §16): one chain for each account and mode, hash-linked and signed. Written in the transaction of
-- the change, and never changed afterwards.

CREATE TABLE audit_entries (
  account_id text COLLATE "C" NOT NULL REFERENCES accounts,
  mode text NOT NULL CHECK (mode IN ('live', 'test')),
  sequence bigint NOT NULL CHECK (sequence > 0),
  audit_id text NOT NULL,
  actor_type text NOT NULL,
  actor_id text COLLATE "C" NOT NULL,
  -- The OAuth client whose access token it was.
  actor_client_id text,
  operation text COLLATE "C" NOT NULL,
  target text COLLATE "C" NOT NULL,
  -- json and not jsonb, because what was hashed is kept as it was written. At most limits.auditStateBytesMax each.
  before json,
  after json,
  request_id text NOT NULL,
  created_at_ms bigint NOT NULL,
  previous_hash text,
  hash text NOT NULL,
  signing_key_id text NOT NULL,
  signature text NOT NULL,
  PRIMARY KEY (account_id, mode, sequence),
  CHECK ((sequence = 1) = (previous_hash IS NULL))
);
-- Lists are read newest first: all, and those of one actor, target or operation.
CREATE INDEX audit_entries_by_time ON audit_entries (account_id, mode, created_at_ms, sequence);
CREATE INDEX audit_entries_of_actor ON audit_entries (account_id, mode, actor_id, created_at_ms, sequence);
CREATE INDEX audit_entries_of_target ON audit_entries (account_id, mode, target, created_at_ms, sequence);
CREATE INDEX audit_entries_of_operation ON audit_entries (account_id, mode, operation, created_at_ms, sequence);
