-- Accounts, keys, issuers, passports, gates, the change feed, sidecars and the attestation store.
-- Times are Unix milliseconds, money is integer micro-USD. SQL stays within PostgreSQL 15.

CREATE TABLE accounts (
  account_id text PRIMARY KEY,
  name text NOT NULL,
  plan text NOT NULL CHECK (plan IN ('free', 'pro', 'teams', 'enterprise')),
  status text NOT NULL CHECK (status IN ('active', 'suspended')),
  requests_per_minute bigint CHECK (requests_per_minute > 0),
  requests_per_day bigint CHECK (requests_per_day > 0),
  is_operator boolean NOT NULL,
  created_at_ms bigint NOT NULL
);
-- The first account is the operator, and there is one first account, also when two replicas start at once.
CREATE UNIQUE INDEX accounts_one_operator ON accounts (is_operator) WHERE is_operator;

CREATE TABLE api_keys (
  key_id text PRIMARY KEY,
  account_id text NOT NULL REFERENCES accounts,
  mode text NOT NULL CHECK (mode IN ('live', 'test')),
  name text NOT NULL,
  scopes text[] NOT NULL,
  key_hash text NOT NULL UNIQUE,
  prefix text NOT NULL,
  last4 text NOT NULL,
  created_at_ms bigint NOT NULL,
  expires_at_ms bigint,
  revoked_at_ms bigint,
  last_used_at_ms bigint
);
CREATE INDEX api_keys_of_account ON api_keys (account_id, key_id);

-- Private halves sealed with MASTER_KEY. One current key per purpose: the newest not retired one whose time has come.
CREATE TABLE signing_keys (
  kid text PRIMARY KEY,
  purpose text NOT NULL CHECK (purpose IN ('passport', 'catalog', 'attestation', 'sync')),
  public_key text NOT NULL,
  sealed_private_key text NOT NULL,
  not_before_ms bigint NOT NULL,
  retired_at_ms bigint,
  compromised boolean NOT NULL DEFAULT false,
  created_at_ms bigint NOT NULL
);

-- Facts about the installation, such as the check value by which a changed MASTER_KEY is noticed.
CREATE TABLE installation (
  name text PRIMARY KEY,
  value text NOT NULL
);

CREATE TABLE issuers (
  issuer_id text PRIMARY KEY,
  account_id text NOT NULL REFERENCES accounts,
  mode text NOT NULL CHECK (mode IN ('live', 'test')),
  name text NOT NULL,
  domain text,
  trust_tier text NOT NULL CHECK (trust_tier IN ('L1', 'L2', 'L3')),
  metadata jsonb NOT NULL,
  status text NOT NULL CHECK (status IN ('active', 'suspended')),
  is_default boolean NOT NULL,
  created_at_ms bigint NOT NULL
);
CREATE INDEX issuers_of_account ON issuers (account_id, mode, issuer_id);
CREATE UNIQUE INDEX issuers_one_default ON issuers (account_id, mode) WHERE is_default;

CREATE TABLE passports (
  passport_id text PRIMARY KEY,
  account_id text NOT NULL REFERENCES accounts,
  mode text NOT NULL CHECK (mode IN ('live', 'test')),
  issuer_id text NOT NULL REFERENCES issuers,
  agent_id text NOT NULL,
  agent_name text NOT NULL,
  subject jsonb NOT NULL,
  permissions text[] NOT NULL,
  constraints jsonb NOT NULL,
  trust_tier text NOT NULL CHECK (trust_tier IN ('L1', 'L2', 'L3')),
  public_key text NOT NULL,
  -- Hex SHA-256 of the token. Records that a sidecar ships name it: proof that the token was shown there.
  token_hash text NOT NULL,
  -- The key that signed the token: when it is declared compromised, the passport counts no more.
  signing_key_id text NOT NULL REFERENCES signing_keys,
  -- 'expired' is written only when the agent_id is issued again; otherwise expiry is seen on read.
  status text NOT NULL CHECK (status IN ('active', 'suspended', 'revoked', 'expired')),
  issued_at_ms bigint NOT NULL,
  expires_at_ms bigint,
  revoked_at_ms bigint,
  revocation_reason text,
  metadata jsonb NOT NULL,
  CHECK ((status = 'revoked') = (revoked_at_ms IS NOT NULL))
);
-- agent_id is unique among the passports of an account and mode that are active or suspended (decisions §3).
CREATE UNIQUE INDEX passports_live_agent ON passports (account_id, mode, agent_id)
  WHERE status IN ('active', 'suspended');
CREATE INDEX passports_of_account ON passports (account_id, mode, passport_id);
CREATE INDEX passports_of_issuer ON passports (issuer_id, passport_id);
-- What a snapshot for a sidecar names (its standings); few among many.
CREATE INDEX passports_not_active ON passports (passport_id) WHERE status IN ('suspended', 'revoked');

-- Beside the passport: written with every batch of records, while the passport itself hardly changes.
CREATE TABLE passport_use (
  passport_id text PRIMARY KEY REFERENCES passports,
  use_count bigint NOT NULL,
  last_used_at_ms bigint NOT NULL
);

CREATE TABLE gates (
  gate_id text PRIMARY KEY,
  account_id text NOT NULL REFERENCES accounts,
  mode text NOT NULL CHECK (mode IN ('live', 'test')),
  name text NOT NULL,
  description text,
  trust_level text NOT NULL CHECK (trust_level IN ('L1', 'L2', 'L3')),
  -- In the public wire shape, normalised.
  constraints jsonb NOT NULL,
  version bigint NOT NULL CHECK (version > 0),
  created_at_ms bigint NOT NULL,
  updated_at_ms bigint NOT NULL,
  deleted_at_ms bigint
);
CREATE INDEX gates_of_account ON gates (account_id, mode, gate_id) WHERE deleted_at_ms IS NULL;

CREATE TABLE gate_use (
  gate_id text PRIMARY KEY REFERENCES gates,
  total_requests bigint NOT NULL,
  permits bigint NOT NULL,
  blocks bigint NOT NULL,
  last_request_at_ms bigint NOT NULL
);

-- The head of each feed: 'global', or the id of an account. A writer bumps the head in its own transaction, so that
-- revisions have no holes and stand in commit order.
CREATE TABLE feeds (
  feed_id text PRIMARY KEY,
  revision bigint NOT NULL
);
INSERT INTO feeds (feed_id, revision) VALUES ('global', 0);

CREATE TABLE changes (
  feed_id text NOT NULL REFERENCES feeds,
  revision bigint NOT NULL,
  kind text NOT NULL,
  body jsonb NOT NULL,
  signing_key_id text NOT NULL,
  signature text NOT NULL,
  created_at_ms bigint NOT NULL,
  PRIMARY KEY (feed_id, revision)
);
CREATE INDEX changes_by_age ON changes (created_at_ms);

CREATE TABLE sidecars (
  sidecar_id text PRIMARY KEY,
  account_id text NOT NULL REFERENCES accounts,
  -- The newest connection is the only one that may ship records.
  connection_id text NOT NULL,
  connected_at_ms bigint NOT NULL,
  last_seen_at_ms bigint NOT NULL,
  acked_account_revision bigint NOT NULL,
  acked_global_revision bigint NOT NULL,
  clock_offset_ms bigint NOT NULL
);
CREATE INDEX sidecars_by_last_seen ON sidecars (last_seen_at_ms);

-- Exactly-once ingest: the last sequence number taken of each start of each sidecar.
CREATE TABLE sidecar_epochs (
  sidecar_id text NOT NULL REFERENCES sidecars,
  epoch text NOT NULL,
  last_seq bigint NOT NULL,
  PRIMARY KEY (sidecar_id, epoch)
);

-- The head of each attestation chain.
CREATE TABLE chains (
  chain_id text PRIMARY KEY,
  -- Who may export the chain: the account of the passport or gate, or the account itself.
  account_id text NOT NULL REFERENCES accounts,
  mode text NOT NULL CHECK (mode IN ('live', 'test')),
  sequence bigint NOT NULL,
  hash text
);
CREATE INDEX chains_of_account ON chains (account_id, mode, chain_id);

CREATE TABLE attestations (
  -- Order of arrival; pages run backwards along it, so that new records never move a page.
  position bigint GENERATED ALWAYS AS IDENTITY,
  attestation_id text PRIMARY KEY,
  chain_id text NOT NULL REFERENCES chains,
  sequence bigint NOT NULL CHECK (sequence > 0),
  previous_hash text,
  hash text NOT NULL,
  signature text NOT NULL,
  signing_key_id text NOT NULL,
  passport_id text,
  gate_id text,
  decision text NOT NULL CHECK (decision IN ('PERMIT', 'SUSPEND', 'BLOCK')),
  reason text,
  request_hash text NOT NULL,
  permission_key text,
  amount_micro_usd bigint,
  constraints_evaluated text[] NOT NULL,
  pii jsonb NOT NULL,
  test boolean NOT NULL,
  resolution text,
  source text NOT NULL,
  timestamp_ms bigint NOT NULL,
  -- Who may read it: the account of the passport and the account of the gate, each in its own mode.
  passport_account_id text,
  passport_mode text,
  gate_account_id text,
  gate_mode text,
  UNIQUE (chain_id, sequence),
  CHECK ((sequence = 1) = (previous_hash IS NULL))
);
CREATE INDEX attestations_of_passport_account ON attestations (passport_account_id, passport_mode, position);
CREATE INDEX attestations_of_gate_account ON attestations (gate_account_id, gate_mode, position);
CREATE INDEX attestations_of_passport ON attestations (passport_id, position);
CREATE INDEX attestations_of_gate ON attestations (gate_id, position);
