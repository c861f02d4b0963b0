-- Issuers of others (contract §4): whose tokens are passports, and the keys that verify them.
CREATE TABLE federations (
  issuer_id text COLLATE "C" PRIMARY KEY REFERENCES issuers,
  account_id text NOT NULL REFERENCES accounts,
  mode text NOT NULL CHECK (mode IN ('live', 'test')),
  settings jsonb NOT NULL,
  -- [{ kid, algorithm, publicKey }]: public keys alone.
  keys jsonb NOT NULL,
  -- Counts the changes of settings and keys.
  version bigint NOT NULL,
  -- When the keys were last read where they are published; null: pasted.
  keys_at_ms bigint,
  -- When they were last asked for, by whichever replica; null: pasted.
  asked_at_ms bigint,
  -- Why the last reading failed; null: it did not.
  fault text,
  CHECK ((keys_at_ms IS NULL) = (asked_at_ms IS NULL))
);
CREATE INDEX federations_of_account ON federations (account_id, mode, issuer_id);
CREATE INDEX federations_asked ON federations (asked_at_ms) WHERE asked_at_ms IS NOT NULL;

-- A person or team (contract §4). token_hash of a passport of another issuer is 'federated'.
ALTER TABLE passports ADD COLUMN owner text;
CREATE INDEX passports_of_owner ON passports (account_id, mode, owner, passport_id) WHERE owner IS NOT NULL;
-- Owners who were suspended; each row stays, so that a suspension is on record.
CREATE TABLE owner_standings (
  account_id text NOT NULL REFERENCES accounts,
  mode text NOT NULL CHECK (mode IN ('live', 'test')),
  owner text COLLATE "C" NOT NULL,
  status text NOT NULL CHECK (status IN ('active', 'suspended')),
  PRIMARY KEY (account_id, mode, owner)
);

-- Security events (RFC 8417) that were taken, each once.
CREATE TABLE security_events (
  issuer_id text COLLATE "C" NOT NULL REFERENCES issuers,
  jti text COLLATE "C" NOT NULL,
  received_at_ms bigint NOT NULL,
  PRIMARY KEY (issuer_id, jti)
);
CREATE INDEX security_events_received ON security_events (received_at_ms);
