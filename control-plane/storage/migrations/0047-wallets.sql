-- Budgets of many passports, in trees (contract §6). A deleted one stays: records name it.
CREATE TABLE wallets (
  wallet_id text COLLATE "C" PRIMARY KEY,
  account_id text NOT NULL REFERENCES accounts,
  mode text NOT NULL CHECK (mode IN ('live', 'test')),
  -- The digest of wallet_id: its name in feeds and in the ledger.
  wallet_key text COLLATE "C" NOT NULL UNIQUE,
  name text NOT NULL,
  parent_id text COLLATE "C" REFERENCES wallets,
  -- From itself up to its root.
  path text[] COLLATE "C" NOT NULL CHECK (cardinality(path) BETWEEN 1 AND 5 AND path[1] = wallet_id),
  -- By the names of the API, in micro-USD or requests.
  limits jsonb NOT NULL,
  share text NOT NULL CHECK (share IN ('pot', 'reserved')),
  -- The sums of the limits that its children with share = 'reserved' have.
  set_aside jsonb NOT NULL DEFAULT '{}',
  alert_at double precision NOT NULL,
  status text NOT NULL CHECK (status IN ('active', 'frozen')),
  created_at_ms bigint NOT NULL,
  -- Of its place, limits or share; 0: none yet.
  changed_at_ms bigint NOT NULL,
  deleted_at_ms bigint,
  -- Names of the owner's by which wallets are told apart.
  labels jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX wallets_of_account ON wallets (account_id, mode, wallet_id) WHERE deleted_at_ms IS NULL;
CREATE INDEX wallets_of_parent ON wallets (parent_id, wallet_id) WHERE deleted_at_ms IS NULL;
CREATE INDEX wallets_frozen ON wallets (wallet_key) WHERE status = 'frozen' AND deleted_at_ms IS NULL;

-- The wallet of a passport, once it had one.
CREATE TABLE passport_wallets (
  passport_id text COLLATE "C" PRIMARY KEY,
  -- Null: it has none any more.
  wallet_id text COLLATE "C" REFERENCES wallets,
  -- Its token says that it may have a wallet; of any other, sidecars have to be told.
  is_in_token boolean NOT NULL,
  -- 0: it was issued in it.
  changed_at_ms bigint NOT NULL
);
CREATE INDEX passport_wallets_of_wallet ON passport_wallets (wallet_id, passport_id) WHERE wallet_id IS NOT NULL;
CREATE INDEX passport_wallets_told ON passport_wallets (passport_id) WHERE wallet_id IS NOT NULL AND NOT is_in_token;

-- What passports and wallets were in before they were moved; NULL: in no wallet. Ingest asks it which paths a passport had.
CREATE TABLE former_places (
  child_id text COLLATE "C" NOT NULL,
  parent_id text COLLATE "C",
  ended_at_ms bigint NOT NULL
);
CREATE INDEX former_places_of_child ON former_places (child_id, ended_at_ms);

-- Chains with records that name the wallet: a statement reads these, and not those of the whole account.
CREATE TABLE wallet_chains (
  wallet_id text COLLATE "C" NOT NULL,
  chain integer NOT NULL,
  PRIMARY KEY (wallet_id, chain)
);

-- The wallet that new passports of an issuer come into (contract §6).
ALTER TABLE issuers
  ADD COLUMN wallet_id text COLLATE "C" REFERENCES wallets,
  -- Since when it is this one, or none again; null: it never had one. Passports that came into one stay there.
  ADD COLUMN wallet_since_ms bigint;
CREATE INDEX issuers_of_wallet ON issuers (wallet_id) WHERE wallet_id IS NOT NULL;

-- PERMITs with a hold, an outcome or a refund, and those that were voided. `counts_micro_usd` is what the PERMIT counts now.
CREATE TABLE permit_outcomes (
  attestation_id text COLLATE "C" PRIMARY KEY,
  -- Owner of the gate; without a gate of the passport.
  account_id text NOT NULL,
  mode text NOT NULL,
  gate_id text,
  passport_id text,
  counts_micro_usd bigint CHECK (counts_micro_usd >= 0),
  hold_micro_usd bigint,
  hold_status text CHECK (hold_status IN ('open', 'settled', 'released', 'expired')),
  hold_expires_at_ms bigint,
  -- When the sweep ends it. NULL: it is not open.
  due_at_ms bigint,
  outcome text CHECK (outcome IN ('served', 'failed')),
  -- As reported; NULL: all.
  outcome_micro_usd bigint,
  detail text,
  reported_at_ms bigint,
  refunded_micro_usd bigint NOT NULL DEFAULT 0,
  -- Money beyond the hold, and the windows that it was taken from.
  overrun_micro_usd bigint NOT NULL DEFAULT 0,
  overrun_from jsonb NOT NULL DEFAULT '[]',
  is_void boolean NOT NULL DEFAULT false,
  -- Of the last record that refers to the PERMIT.
  record_id text
);
CREATE INDEX permit_outcomes_due ON permit_outcomes (due_at_ms) WHERE due_at_ms IS NOT NULL;
CREATE INDEX permit_outcomes_holds ON permit_outcomes (account_id, mode, attestation_id) WHERE hold_status IS NOT NULL;
CREATE INDEX permit_outcomes_open ON permit_outcomes (account_id, mode, attestation_id) WHERE hold_status = 'open';
-- Few among many, for the balance of the ledger.
CREATE INDEX permit_outcomes_overrun ON permit_outcomes (attestation_id) WHERE overrun_micro_usd > 0;

-- Outcomes that sidecars have shipped: not applied yet, waiting for their PERMITs, or refused.
CREATE TABLE reported_outcomes (
  place bigint GENERATED ALWAYS AS IDENTITY,
  outcome_id text COLLATE "C" PRIMARY KEY,
  account_id text NOT NULL,
  mode text NOT NULL,
  sidecar_id text NOT NULL,
  attestation_id text NOT NULL,
  outcome text NOT NULL,
  amount_micro_usd bigint,
  detail text,
  reported_at_ms bigint NOT NULL,
  received_at_ms bigint NOT NULL,
  -- NULL: refused.
  due_at_ms bigint,
  code text,
  message text,
  CHECK ((due_at_ms IS NULL) = (code IS NOT NULL))
);
CREATE INDEX reported_outcomes_due ON reported_outcomes (due_at_ms) WHERE due_at_ms IS NOT NULL;
CREATE INDEX reported_outcomes_of_account ON reported_outcomes (account_id, mode, outcome_id);
CREATE INDEX reported_outcomes_refused ON reported_outcomes (received_at_ms) WHERE due_at_ms IS NULL;
