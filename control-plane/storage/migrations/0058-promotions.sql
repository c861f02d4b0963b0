-- The newest promotion of a shadow of the gate, and what it was expected to decide (contract §4).
ALTER TABLE gate_shadows
  ADD COLUMN promoted_at_ms bigint,
  ADD COLUMN promoted_policy_hash text,
  -- As PredictedCounts; NULL: not counted.
  ADD COLUMN predicted json;
