-- Passports and owners that a recovery took back (contract §17), of which the database has no name: they were
-- made, or first seen, after the backup. Sidecars know them by these digests alone.
CREATE TABLE unnamed_ends (
  digest bytea PRIMARY KEY,
  standing text NOT NULL CHECK (standing IN ('suspended', 'revoked')),
  expired_by_day bigint
);
ALTER TABLE known_ends ADD COLUMN expired_by_day bigint,
  DROP CONSTRAINT known_ends_kind_check,
  ADD CONSTRAINT known_ends_kind_check
    CHECK (kind IN ('passport', 'owner', 'unnamed', 'issuer', 'federation', 'account', 'gate', 'api_key', 'gate_policy'));
