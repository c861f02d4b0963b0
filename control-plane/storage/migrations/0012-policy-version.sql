-- An approval is bound to what its gate decides by (decisions §8), not to the gate's name: the version of the gate at which that last changed.
ALTER TABLE gates ADD COLUMN policy_version bigint;
UPDATE gates SET policy_version = version;
ALTER TABLE gates ALTER COLUMN policy_version SET NOT NULL, ADD CHECK (policy_version > 0 AND policy_version <= version);

-- What a change of a gate's policy voids.
CREATE INDEX approvals_open_of_gate ON approvals (gate_id) WHERE status IN ('pending', 'approved');
