-- Who holds units of the quota ledger, what was spent of a window for good, and which PERMIT an idempotency key belongs to.

-- A holder is one process of a sidecar. Its calls are numbered and answered one at a time; whoever changes what it holds has locked its row.
CREATE TABLE lease_holders (
  holder text COLLATE "C" PRIMARY KEY,
  -- No reference: it would lock the row of the sidecar, which every acknowledgement of a revocation writes.
  sidecar_id text NOT NULL,
  account_id text NOT NULL,
  last_seq bigint NOT NULL CHECK (last_seq >= 0),
  -- What that call was answered, as shared/wire/lease-call.ts spells it: the same call again gets the same grants.
  last_answer jsonb NOT NULL,
  -- Written at most once an hour, so that a call usually changes nothing that stands in an index.
  last_call_at_ms bigint NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX lease_holders_by_last_call ON lease_holders (last_call_at_ms);
CREATE INDEX lease_holders_of_sidecar ON lease_holders (sidecar_id, last_call_at_ms);

-- What was leased to a holder and neither given back nor passed to an approval: an upper bound of what it may still give back.
-- Units that it used stay in here; the holder alone knows which. A row goes some time after its window has ended.
CREATE TABLE quota_leases (
  holder text COLLATE "C" NOT NULL REFERENCES lease_holders ON DELETE CASCADE,
  -- As in quota_windows, of whose `leased` these units are a part.
  counter text COLLATE "C" NOT NULL,
  window_name text COLLATE "C" NOT NULL CHECK (window_name IN ('minute', 'hour', 'day', 'month')),
  starts_at_ms bigint NOT NULL,
  ends_at_ms bigint NOT NULL CHECK (ends_at_ms > starts_at_ms),
  units bigint NOT NULL CHECK (units >= 0),
  PRIMARY KEY (holder, counter, window_name, starts_at_ms)
) WITH (fillfactor = 50);
CREATE INDEX quota_leases_by_end ON quota_leases (ends_at_ms);

-- What PERMITs have spent of a window that has a limit, for `spend_limit.approaching`. Nothing is decided by it: that is what
-- quota_windows is for, where money is counted before it is spent.
CREATE TABLE quota_spend (
  counter text COLLATE "C" NOT NULL,
  window_name text COLLATE "C" NOT NULL CHECK (window_name IN ('day', 'month')),
  starts_at_ms bigint NOT NULL,
  ends_at_ms bigint NOT NULL CHECK (ends_at_ms > starts_at_ms),
  -- Micro-USD.
  spent bigint NOT NULL CHECK (spent > 0),
  -- Whether the alert was given, which happens once, whatever becomes of the limit.
  is_alerted boolean NOT NULL,
  PRIMARY KEY (counter, window_name, starts_at_ms)
) WITH (fillfactor = 50);
CREATE INDEX quota_spend_by_end ON quota_spend (ends_at_ms);

-- The first PERMIT under each idempotency key (decisions §5), written in the transaction that stores its record.
CREATE TABLE permit_claims (
  passport_id text NOT NULL,
  -- The gate; of `/enforce` without one the account that asked.
  scope_id text NOT NULL,
  -- Hex SHA-256 of the idempotency key: a caller may have put anything into it.
  key_hash text COLLATE "C" NOT NULL,
  request_hash text NOT NULL,
  attestation_id text NOT NULL,
  -- {"constraints_evaluated": [...], "pii": [...]}: as it was answered.
  answer jsonb NOT NULL,
  expires_at_ms bigint NOT NULL,
  PRIMARY KEY (passport_id, scope_id, key_hash)
);
CREATE INDEX permit_claims_by_expiry ON permit_claims (expires_at_ms);
