-- What a policy would have decided (contract §4). Kept for seven days.
CREATE TABLE backtests (
  backtest_id text COLLATE "C" PRIMARY KEY,
  account_id text NOT NULL REFERENCES accounts,
  mode text NOT NULL CHECK (mode IN ('live', 'test')),
  gate_id text NOT NULL REFERENCES gates,
  -- As in `policies`; it is in force nowhere.
  policy_hash text NOT NULL,
  policy text NOT NULL,
  since_ms bigint NOT NULL,
  until_ms bigint NOT NULL,
  status text NOT NULL CHECK (status IN ('running', 'done', 'failed', 'cancelled')),
  -- From 0 to 1.
  progress real NOT NULL DEFAULT 0,
  -- Why it failed.
  reason text COLLATE "C",
  report json,
  created_at_ms bigint NOT NULL,
  ended_at_ms bigint,
  -- The replica that does it, until then by the clock of the database; NULL: none has begun.
  worker text,
  worker_until_ms bigint NOT NULL DEFAULT 0,
  CHECK ((status = 'running') = (ended_at_ms IS NULL)),
  CHECK ((status = 'done') = (report IS NOT NULL)),
  CHECK ((status = 'failed') = (reason IS NOT NULL))
);
-- One at a time.
CREATE UNIQUE INDEX backtests_running ON backtests (account_id) WHERE status = 'running';
CREATE INDEX backtests_by_time ON backtests (created_at_ms);
