-- The head of each chain of the audit, as `chains` has those of the attestations: entries that are removed from a chain leave their mark
-- (contract §16). A trigger moves it, so that control planes of the version before, which know nothing of it, move it as well.
CREATE TABLE audit_chains (
  account_id text COLLATE "C" NOT NULL REFERENCES accounts,
  mode text NOT NULL CHECK (mode IN ('live', 'test')),
  sequence bigint NOT NULL CHECK (sequence > 0),
  hash text NOT NULL,
  PRIMARY KEY (account_id, mode)
);

CREATE FUNCTION move_audit_head() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO audit_chains AS head (account_id, mode, sequence, hash) VALUES (NEW.account_id, NEW.mode, NEW.sequence, NEW.hash)
  ON CONFLICT (account_id, mode) DO UPDATE SET sequence = excluded.sequence, hash = excluded.hash
    -- Never back.
    WHERE head.sequence < excluded.sequence;
  RETURN NULL;
END $$;
-- Nobody appends from here to the commit.
CREATE TRIGGER move_audit_head AFTER INSERT ON audit_entries FOR EACH ROW EXECUTE FUNCTION move_audit_head();

INSERT INTO audit_chains (account_id, mode, sequence, hash)
SELECT account_id, mode, last.sequence, last.hash
FROM accounts CROSS JOIN (VALUES ('live'), ('test')) AS modes (mode)
CROSS JOIN LATERAL (
  SELECT sequence, hash FROM audit_entries AS entry
  WHERE entry.account_id = accounts.account_id AND entry.mode = modes.mode ORDER BY sequence DESC LIMIT 1
) AS last;
