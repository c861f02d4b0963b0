-- What people approved ahead (contract §8). Never removed: who approved what is on record.
CREATE TABLE standing_approvals (
  standing_approval_id text COLLATE "C" PRIMARY KEY,
  account_id text NOT NULL REFERENCES accounts,
  mode text NOT NULL CHECK (mode IN ('live', 'test')),
  gate_id text NOT NULL,
  -- gates.policy_version that it was made under, and ends with.
  gate_version bigint NOT NULL,
  passport_id text,
  agent_id text,
  permission_key text NOT NULL,
  each_micro_usd bigint NOT NULL CHECK (each_micro_usd > 0),
  total_micro_usd bigint NOT NULL CHECK (total_micro_usd >= each_micro_usd),
  note text,
  created_at_ms bigint NOT NULL,
  created_by text NOT NULL,
  expires_at_ms bigint NOT NULL CHECK (expires_at_ms > created_at_ms),
  -- By a caller, or by a change of the policy; then ended_by is null. expires_at_ms where neither came before.
  ended_at_ms bigint,
  ended_by text,
  -- Copied from the ledger a while after expires_at_ms, before the ledger forgets it.
  used_micro_usd bigint,
  -- In place of a passport: all of this owner.
  owner text,
  CONSTRAINT standing_approvals_for CHECK ((passport_id IS NULL) = (owner IS NOT NULL) AND (passport_id IS NULL) = (agent_id IS NULL)),
  CHECK (ended_by IS NULL OR ended_at_ms IS NOT NULL)
);
CREATE INDEX standing_approvals_of_account ON standing_approvals (account_id, mode, standing_approval_id);
CREATE INDEX standing_approvals_of_gate ON standing_approvals (gate_id, standing_approval_id);
CREATE INDEX standing_approvals_of_passport ON standing_approvals (passport_id, standing_approval_id);
CREATE INDEX standing_approvals_of_owner ON standing_approvals (account_id, mode, owner, standing_approval_id) WHERE owner IS NOT NULL;
-- Those that may be in force: of a gate, and of an account.
CREATE INDEX standing_approvals_open_at_gate ON standing_approvals (gate_id) WHERE ended_at_ms IS NULL;
CREATE INDEX standing_approvals_open_of_account ON standing_approvals (account_id, mode) WHERE ended_at_ms IS NULL;
CREATE INDEX standing_approvals_uncounted ON standing_approvals (expires_at_ms) WHERE used_micro_usd IS NULL;

-- Whether a passport has asked for an approval at a gate.
CREATE INDEX approvals_of_passport ON approvals (passport_id, gate_id);

-- Ended with the policy, whichever version of the program changes it.
CREATE FUNCTION end_standing_approvals() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE standing_approvals SET ended_at_ms = greatest(created_at_ms, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
  WHERE gate_id = NEW.gate_id AND ended_at_ms IS NULL;
  RETURN NULL;
END $$;
CREATE TRIGGER end_standing_approvals AFTER UPDATE OF policy_version, deleted_at_ms ON gates FOR EACH ROW
  WHEN (NEW.policy_version <> OLD.policy_version OR (NEW.deleted_at_ms IS NOT NULL AND OLD.deleted_at_ms IS NULL))
  EXECUTE FUNCTION end_standing_approvals();

-- Units that requests hold while they wait for a person, by whose passports they are.
CREATE INDEX approvals_holding ON approvals (passport_account_id, passport_mode) WHERE due_at_ms IS NOT NULL AND holds <> '[]';
