-- Money of PERMITs on record in each window of a wallet, and what of it open holds have (contract §6). Kept up in the transactions that
-- change it. Wallets are as new as this: what was taken before is in no sum.
CREATE TABLE wallet_spend (
  wallet_key text COLLATE "C" NOT NULL,
  window_name text COLLATE "C" NOT NULL,
  starts_at_ms bigint NOT NULL,
  ends_at_ms bigint NOT NULL,
  spent bigint NOT NULL,
  held bigint NOT NULL,
  is_alerted boolean NOT NULL,
  PRIMARY KEY (wallet_key, window_name, starts_at_ms)
);
CREATE INDEX wallet_spend_by_end ON wallet_spend (ends_at_ms);

-- Chains with records that name the wallet: a statement reads these, and not those of the whole account.
CREATE TABLE wallet_chains (
  wallet_id text COLLATE "C" NOT NULL,
  chain integer NOT NULL,
  PRIMARY KEY (wallet_id, chain)
);
