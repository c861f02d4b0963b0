-- The wallet that new passports of an issuer come into (contract §6).
ALTER TABLE issuers
  ADD COLUMN wallet_id text COLLATE "C" REFERENCES wallets,
  -- Since when it is this one, or none again; null: it never had one. Passports that came into one stay there.
  ADD COLUMN wallet_since_ms bigint;
CREATE INDEX issuers_of_wallet ON issuers (wallet_id) WHERE wallet_id IS NOT NULL;
