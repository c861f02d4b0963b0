-- A standing approval may be for all passports of an owner (contract §8). Every row before is for a passport.
ALTER TABLE standing_approvals ALTER COLUMN passport_id DROP NOT NULL, ALTER COLUMN agent_id DROP NOT NULL,
  ADD COLUMN owner text,
  ADD CONSTRAINT standing_approvals_for CHECK ((passport_id IS NULL) = (owner IS NOT NULL) AND (passport_id IS NULL) = (agent_id IS NULL)) NOT VALID;
CREATE INDEX standing_approvals_of_owner ON standing_approvals (account_id, mode, owner, standing_approval_id) WHERE owner IS NOT NULL;
