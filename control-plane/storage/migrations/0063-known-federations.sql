-- A recovery takes back what issuers of others were (contract §17): their settings and keys, as sidecars knew them.
ALTER TABLE known_ends ADD COLUMN detail jsonb,
  DROP CONSTRAINT known_ends_kind_check,
  ADD CONSTRAINT known_ends_kind_check
    CHECK (kind IN ('passport', 'owner', 'issuer', 'federation', 'account', 'gate', 'api_key', 'gate_policy'));
