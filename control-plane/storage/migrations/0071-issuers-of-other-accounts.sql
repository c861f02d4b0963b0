-- Issuers of others that gates of other accounts name by id (contract §4): whose sidecars have to be told.
CREATE INDEX gates_trusting ON gates USING gin ((constraints->'trusted_issuers')) WHERE deleted_at_ms IS NULL;

-- The accounts, besides its own, whose sidecars have shown a token of a passport of another issuer: they may
-- report decisions about it, and draw on its limits.
CREATE TABLE shown_passports (
  passport_id text COLLATE "C" NOT NULL,
  account_id text COLLATE "C" NOT NULL,
  PRIMARY KEY (passport_id, account_id)
);
