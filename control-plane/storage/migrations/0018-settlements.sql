-- Each PERMIT that claims an idempotency key or uses an approval, and each SUSPEND of a sidecar: committed, or void for ever (decisions §5). One row
-- takes the place of the claim of a key, and is what a settlement that comes twice, or after its void, finds.
ALTER TABLE permit_claims RENAME TO settlements;
ALTER INDEX permit_claims_by_expiry RENAME TO settlements_by_expiry;
ALTER TABLE settlements DROP CONSTRAINT permit_claims_pkey;
-- The id of the PERMIT's record, or of the approval.
ALTER TABLE settlements RENAME COLUMN attestation_id TO settlement_id;
ALTER TABLE settlements ADD PRIMARY KEY (settlement_id);
-- The key with what it is scoped to; null where the request has none, and from the void on.
ALTER TABLE settlements ALTER COLUMN passport_id DROP NOT NULL, ALTER COLUMN scope_id DROP NOT NULL,
  ALTER COLUMN key_hash DROP NOT NULL;
CREATE UNIQUE INDEX settlements_by_key ON settlements (passport_id, scope_id, key_hash);
-- Null in a void that came before its settlement.
ALTER TABLE settlements ALTER COLUMN request_hash DROP NOT NULL, ALTER COLUMN answer DROP NOT NULL;
ALTER TABLE settlements
  ADD COLUMN is_void boolean NOT NULL DEFAULT false,
  -- Another request was answered with it: it can be voided no more. Claims of earlier versions were answered.
  ADD COLUMN is_answered boolean NOT NULL DEFAULT true,
  -- The sidecar that may void it, or 'control-plane'.
  ADD COLUMN source text NOT NULL DEFAULT 'control-plane',
  -- What its void frees: leases of the sidecar that it took from.
  ADD COLUMN took bigint[] NOT NULL DEFAULT '{}',
  -- And units that the control plane took: [{"counter", "window", "startsAtMs", "units"}].
  ADD COLUMN held jsonb NOT NULL DEFAULT '[]';
ALTER TABLE settlements ALTER COLUMN is_answered DROP DEFAULT, ALTER COLUMN source DROP DEFAULT;
