-- Where a PERMIT took its money (contract §19): numbers of leases, or windows of the ledger as [counter, window_name, starts_at_ms]. NULL: it
-- took none, or was stored by the version before; then no money goes back.
ALTER TABLE records ADD COLUMN money_from jsonb;

-- What leases of money had posted when they went before the end of their window, with their holder: money that comes back later is bounded by
-- it. Kept up by a trigger, because replicas of the version before remove leases, too.
CREATE TABLE former_leases (
  lease_id bigint PRIMARY KEY,
  counter text COLLATE "C" NOT NULL,
  window_name text NOT NULL,
  starts_at_ms bigint NOT NULL,
  ends_at_ms bigint NOT NULL,
  used bigint NOT NULL CHECK (used >= 0)
);
CREATE INDEX former_leases_by_end ON former_leases (ends_at_ms);

CREATE FUNCTION keep_former_lease() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  posted bigint := coalesce((SELECT sum(units) FROM lease_posts WHERE lease_id = OLD.lease_id), 0);
BEGIN
  INSERT INTO former_leases (lease_id, counter, window_name, starts_at_ms, ends_at_ms, used)
  VALUES (OLD.lease_id, OLD.counter, OLD.window_name, OLD.starts_at_ms, OLD.ends_at_ms,
    greatest(OLD.used + least(OLD.units, posted), 0))
  ON CONFLICT (lease_id) DO NOTHING;
  RETURN OLD;
END $$;
-- Before: its posts go with it.
CREATE TRIGGER keep_former_lease BEFORE DELETE ON quota_leases FOR EACH ROW
  WHEN (split_part(OLD.counter, ':', 1) LIKE '%\_spend'
    AND OLD.ends_at_ms > (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
  EXECUTE FUNCTION keep_former_lease();

-- PERMITs with a hold, an outcome or a refund, and those that were voided. `counts_micro_usd` is what the PERMIT counts now.
CREATE TABLE permit_outcomes (
  attestation_id text COLLATE "C" PRIMARY KEY,
  -- Owner of the gate; without a gate of the passport.
  account_id text NOT NULL,
  mode text NOT NULL,
  gate_id text,
  passport_id text,
  counts_micro_usd bigint CHECK (counts_micro_usd >= 0),
  hold_micro_usd bigint,
  hold_status text CHECK (hold_status IN ('open', 'settled', 'released', 'expired')),
  hold_expires_at_ms bigint,
  -- When the sweep ends it. NULL: it is not open.
  due_at_ms bigint,
  outcome text CHECK (outcome IN ('served', 'failed')),
  -- As reported; NULL: all.
  outcome_micro_usd bigint,
  detail text,
  reported_at_ms bigint,
  refunded_micro_usd bigint NOT NULL DEFAULT 0,
  -- Money beyond the hold, and the windows that it was taken from.
  overrun_micro_usd bigint NOT NULL DEFAULT 0,
  overrun_from jsonb NOT NULL DEFAULT '[]',
  is_void boolean NOT NULL DEFAULT false,
  -- Of the last record that refers to the PERMIT.
  record_id text
);
CREATE INDEX permit_outcomes_due ON permit_outcomes (due_at_ms) WHERE due_at_ms IS NOT NULL;
CREATE INDEX permit_outcomes_holds ON permit_outcomes (account_id, mode, attestation_id) WHERE hold_status IS NOT NULL;
CREATE INDEX permit_outcomes_open ON permit_outcomes (account_id, mode, attestation_id) WHERE hold_status = 'open';

-- Outcomes that sidecars have shipped: not applied yet, waiting for their PERMITs, or refused.
CREATE TABLE reported_outcomes (
  place bigint GENERATED ALWAYS AS IDENTITY,
  outcome_id text COLLATE "C" PRIMARY KEY,
  account_id text NOT NULL,
  mode text NOT NULL,
  sidecar_id text NOT NULL,
  attestation_id text NOT NULL,
  outcome text NOT NULL,
  amount_micro_usd bigint,
  detail text,
  reported_at_ms bigint NOT NULL,
  received_at_ms bigint NOT NULL,
  -- NULL: refused.
  due_at_ms bigint,
  code text,
  message text,
  CHECK ((due_at_ms IS NULL) = (code IS NOT NULL))
);
CREATE INDEX reported_outcomes_due ON reported_outcomes (due_at_ms) WHERE due_at_ms IS NOT NULL;
CREATE INDEX reported_outcomes_of_account ON reported_outcomes (account_id, mode, outcome_id);
CREATE INDEX reported_outcomes_refused ON reported_outcomes (received_at_ms) WHERE due_at_ms IS NULL;

-- Money that comes back leaves the sum of a window at 0.
ALTER TABLE quota_spend DROP CONSTRAINT quota_spend_spent_check,
  ADD CONSTRAINT quota_spend_spent_check CHECK (spent >= 0) NOT VALID;
