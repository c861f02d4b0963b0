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
  -- Of lookOf in shared/wire/look-alike.ts.
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
