-- Names of the owner's by which gates are told apart (contract §4). Replicas of the version before write none.
ALTER TABLE gates ADD COLUMN labels jsonb NOT NULL DEFAULT '{}';
-- Issuers of others that gates of other accounts name by id (contract §4): whose sidecars have to be told.
CREATE INDEX gates_trusting ON gates USING gin ((constraints->'trusted_issuers')) WHERE deleted_at_ms IS NULL;

-- The words of an account's policy enforcement points for its gates and permissions.
CREATE TABLE authzen_vocabularies (
  account_id text NOT NULL REFERENCES accounts,
  mode text NOT NULL CHECK (mode IN ('live', 'test')),
  vocabulary jsonb NOT NULL,
  PRIMARY KEY (account_id, mode)
);

-- Tools of MCP servers as guards saw them first, or as a person accepted them (contract §16).

-- A server behind a gate, as its guards name it: its reports are taken one after the other.
CREATE TABLE mcp_upstreams (
  gate_id text NOT NULL REFERENCES gates,
  upstream text NOT NULL,
  -- Its tools were listed whole once: a new one waits for a person from then on.
  is_established boolean NOT NULL,
  -- Rises with every change of its pins.
  revision bigint NOT NULL,
  first_seen_at_ms bigint NOT NULL,
  PRIMARY KEY (gate_id, upstream)
);

CREATE TABLE mcp_pins (
  pin_id text COLLATE "C" PRIMARY KEY,
  account_id text NOT NULL,
  mode text NOT NULL,
  gate_id text NOT NULL,
  upstream text NOT NULL,
  tool text COLLATE "C" NOT NULL,
  -- Of lookOf in shared/wire/api/look-alike.ts.
  look text NOT NULL,
  status text NOT NULL CHECK (status IN ('pinned', 'changed', 'rejected')),
  -- In the form of RFC 8785. Null: none was accepted yet.
  definition text,
  hash text,
  -- Without its names: a renamed tool has the same.
  body_hash text,
  -- What waits for an answer, or was rejected.
  new_definition text,
  new_hash text,
  change text,
  -- The tool that it looks like, or had been.
  resembles text,
  first_seen_at_ms bigint NOT NULL,
  changed_at_ms bigint,
  resolved_at_ms bigint,
  resolved_by text,
  FOREIGN KEY (gate_id, upstream) REFERENCES mcp_upstreams,
  UNIQUE (gate_id, upstream, tool),
  CHECK ((definition IS NULL) = (hash IS NULL)),
  CHECK ((new_definition IS NULL) = (new_hash IS NULL)),
  CHECK ((status = 'pinned') = (new_hash IS NULL)),
  CHECK (status <> 'pinned' OR hash IS NOT NULL)
);

CREATE INDEX mcp_pins_of_account ON mcp_pins (account_id, mode, pin_id DESC);

-- Proofs of possession that are accepted once over all sidecars and replicas (contract §5).

CREATE TABLE used_proofs (
  -- The first 16 bytes of SHA-256 of its name, base64url.
  proof text COLLATE "C" PRIMARY KEY,
  -- Whose use it was: the same claim may ask again.
  claim text NOT NULL,
  used_at_ms bigint NOT NULL
);

CREATE INDEX used_proofs_by_time ON used_proofs (used_at_ms);

-- Control planes that run, and which master keys each of them has (docs/operate/hardening.md): none may seal what another does not open. Keys
-- by their ids, which tell nothing about them.
CREATE TABLE replicas (
  replica_id text COLLATE "C" PRIMARY KEY,
  seals_with text COLLATE "C" NOT NULL,
  opens text[] COLLATE "C" NOT NULL,
  -- By the clock of the database.
  seen_at_ms bigint NOT NULL
);
