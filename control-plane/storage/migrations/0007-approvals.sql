-- Requests that wait for a person, or did (decisions §8), each with the money it holds. Never removed: who approved what is on record.

CREATE TABLE approvals (
  approval_id text PRIMARY KEY,
  -- As last written. 'pending' and 'approved' are over at expires_at_ms, whether that was written already or not.
  status text NOT NULL CHECK (status IN ('pending', 'approved', 'denied', 'expired', 'used')),
  passport_id text NOT NULL,
  agent_id text NOT NULL,
  gate_id text NOT NULL,
  gate_version bigint NOT NULL,
  request_hash text NOT NULL,
  permission_key text,
  amount_micro_usd bigint,
  -- What the records of its resolution say besides.
  constraints_evaluated text[] NOT NULL,
  pii jsonb NOT NULL,
  -- Whose passport it is, and whose gate: the account and mode of the gate see the approval and resolve it.
  passport_account_id text NOT NULL REFERENCES accounts,
  passport_mode text NOT NULL CHECK (passport_mode IN ('live', 'test')),
  gate_account_id text NOT NULL REFERENCES accounts,
  gate_mode text NOT NULL CHECK (gate_mode IN ('live', 'test')),
  created_at_ms bigint NOT NULL,
  -- Its length of life: it runs from the opening, and once more from the approval.
  expires_in_ms bigint NOT NULL CHECK (expires_in_ms > 0),
  expires_at_ms bigint NOT NULL,
  -- Of the person's word; null where none came in time.
  resolved_at_ms bigint,
  resolved_by text,
  note text,
  -- Units of the quota ledger that belong to it: [{"counter", "window", "startsAtMs", "units"}].
  holds jsonb NOT NULL,
  -- The PERMIT that used it, and with it the holds.
  attestation_id text,
  -- When it has to be attested as expired and its holds freed, if nothing happens before. Null: nothing is left to do.
  due_at_ms bigint,
  CHECK ((status = 'used') = (attestation_id IS NOT NULL)),
  CHECK (status NOT IN ('denied', 'used') OR due_at_ms IS NULL),
  CHECK (status NOT IN ('pending', 'approved') OR due_at_ms IS NOT DISTINCT FROM expires_at_ms),
  CHECK ((resolved_at_ms IS NULL) = (resolved_by IS NULL)),
  CHECK (status = 'expired' OR (status = 'pending') = (resolved_at_ms IS NULL))
);
-- The same request, while it is pending, has one approval.
CREATE UNIQUE INDEX approvals_one_pending ON approvals (passport_id, gate_id, gate_version, request_hash)
  WHERE status = 'pending';
CREATE INDEX approvals_of_account ON approvals (gate_account_id, gate_mode, approval_id);
-- What a person looks for: few among many.
CREATE INDEX approvals_pending_of_account ON approvals (gate_account_id, gate_mode, approval_id)
  WHERE status = 'pending';
CREATE INDEX approvals_due ON approvals (due_at_ms) WHERE due_at_ms IS NOT NULL;

-- Of the newest catalog: the permissions that need an approval, beside catalog_prices for the same reason.
ALTER TABLE gates ADD COLUMN catalog_approvals text[] NOT NULL DEFAULT '{}';
