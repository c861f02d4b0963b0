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
  deleted_at_ms bigint
);
CREATE INDEX wallets_of_account ON wallets (account_id, mode, wallet_id) WHERE deleted_at_ms IS NULL;
CREATE INDEX wallets_of_parent ON wallets (parent_id, wallet_id) WHERE deleted_at_ms IS NULL;
CREATE INDEX wallets_frozen ON wallets (wallet_key) WHERE status = 'frozen' AND deleted_at_ms IS NULL;

-- The wallet of a passport, once it had one.
CREATE TABLE passport_wallets (
  passport_id text COLLATE "C" PRIMARY KEY,
  -- Null: it has none any more.
  wallet_id text COLLATE "C" REFERENCES wallets,
  -- Until changed_at_ms.
  previous_wallet_id text COLLATE "C",
  -- Its token says that it may have a wallet; of any other, sidecars have to be told.
  is_in_token boolean NOT NULL,
  -- 0: it was issued in it.
  changed_at_ms bigint NOT NULL
);
CREATE INDEX passport_wallets_of_wallet ON passport_wallets (wallet_id, passport_id) WHERE wallet_id IS NOT NULL;
CREATE INDEX passport_wallets_told ON passport_wallets (passport_id) WHERE wallet_id IS NOT NULL AND NOT is_in_token;
