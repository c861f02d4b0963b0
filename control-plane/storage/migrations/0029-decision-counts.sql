-- Decisions by their gate, outcome and reason, in minutes and in hours: what the statistics answer from.
-- Counted in the transaction of the records, and removed when they are old.

CREATE TABLE decision_counts (
  -- Whose decisions they are: of the gate's account, else of whoever may read them.
  account_id text COLLATE "C" NOT NULL,
  mode text COLLATE "C" NOT NULL CHECK (mode IN ('live', 'test')),
  step text COLLATE "C" NOT NULL CHECK (step IN ('minute', 'hour')),
  -- UTC.
  starts_at_ms bigint NOT NULL,
  -- Empty: no gate was named.
  gate_id text COLLATE "C" NOT NULL,
  decision text COLLATE "C" NOT NULL,
  -- Empty: there is none.
  reason text COLLATE "C" NOT NULL,
  decisions bigint NOT NULL,
  PRIMARY KEY (account_id, mode, step, starts_at_ms, gate_id, decision, reason)
);
CREATE INDEX decision_counts_by_age ON decision_counts (step, starts_at_ms);
