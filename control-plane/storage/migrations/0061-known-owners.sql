-- A recovery takes suspensions of owners back, too (contract §17): their id is what sidecars look them up by.
ALTER TABLE known_ends DROP CONSTRAINT known_ends_kind_check,
  ADD CONSTRAINT known_ends_kind_check
    CHECK (kind IN ('passport', 'owner', 'issuer', 'account', 'gate', 'api_key', 'gate_policy'));
