-- The checked forms of the conditions of a gate, in their order (docs/condition-form.md), which its sidecars are told.
-- Null: it has none.
ALTER TABLE gates ADD COLUMN condition_forms jsonb;
-- The ids of the conditions for which a person is asked, which failed; null: there are none.
ALTER TABLE approvals ADD COLUMN conditions text[];
