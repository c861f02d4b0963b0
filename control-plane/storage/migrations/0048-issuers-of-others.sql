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
  -- One that arrives late must not lift a suspension of a later one.
  issued_at_ms bigint,
  suspended text[] COLLATE "C",
  PRIMARY KEY (issuer_id, jti)
);
CREATE INDEX security_events_received ON security_events (received_at_ms);
CREATE INDEX security_events_suspended ON security_events USING gin (suspended);

-- The accounts, besides its own, whose sidecars have shown a token of a passport of another issuer: they may
-- report decisions about it, and draw on its limits.
CREATE TABLE shown_passports (
  passport_id text COLLATE "C" NOT NULL,
  account_id text COLLATE "C" NOT NULL,
  PRIMARY KEY (passport_id, account_id)
);

-- Why a passport or an owner is suspended (contract §3): while any of these stands. `status` of passports and
-- of owner_standings says whether one does.
CREATE TABLE suspensions (
  account_id text NOT NULL REFERENCES accounts,
  mode text NOT NULL CHECK (mode IN ('live', 'test')),
  -- Whose passports it stops; empty: a passport by itself.
  owner text NOT NULL,
  -- Of an owner: a passport that it has stopped, under whatever name its tokens come; empty: the owner.
  passport_id text NOT NULL,
  -- 'account', or the issuer that said so.
  cause text NOT NULL,
  since_ms bigint NOT NULL,
  -- Type of the security event; null: none.
  event text,
  PRIMARY KEY (account_id, mode, owner, passport_id, cause),
  CHECK (owner <> '' OR passport_id <> '')
);
CREATE INDEX suspensions_of_passport ON suspensions (passport_id);

-- The version before knows a status alone. What this one writes has its causes first.
CREATE FUNCTION keep_suspension() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.status = 'active' THEN
    DELETE FROM suspensions WHERE passport_id = NEW.passport_id;
  ELSIF NOT EXISTS (SELECT FROM suspensions WHERE passport_id = NEW.passport_id) THEN
    INSERT INTO suspensions VALUES (NEW.account_id, NEW.mode, '', NEW.passport_id, 'account',
      (extract(epoch FROM clock_timestamp()) * 1000)::bigint, NULL);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER keep_suspension AFTER UPDATE OF status ON passports FOR EACH ROW
  WHEN (NEW.status = 'suspended' AND OLD.status <> 'suspended' OR NEW.status = 'active' AND OLD.status = 'suspended')
  EXECUTE FUNCTION keep_suspension();
