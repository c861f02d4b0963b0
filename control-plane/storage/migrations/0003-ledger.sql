-- The quota ledger: how many units of each counter have been given out in each calendar window (UTC).
-- Requests and micro-USD, plan limits and gates: all are rows of this one table. The limit is not kept here, because it may
-- change within a window; whoever takes units names it.

CREATE TABLE quota_windows (
  -- As shared/quota/counter.ts spells it: 'plan:acct_…', 'gate_rate:gate_…:pass_…'.
  counter text COLLATE "C" NOT NULL,
  window_name text COLLATE "C" NOT NULL CHECK (window_name IN ('minute', 'hour', 'day', 'month')),
  starts_at_ms bigint NOT NULL,
  ends_at_ms bigint NOT NULL CHECK (ends_at_ms > starts_at_ms),
  -- Units taken by requests or held by a lease. Only control-plane/leases changes it.
  leased bigint NOT NULL CHECK (leased >= 0),
  PRIMARY KEY (counter, window_name, starts_at_ms)
) WITH (fillfactor = 50);
-- Rows are updated far more often than they are made. `leased` stands in no index and pages keep room, so that an update
-- stays on its page and touches no index.
CREATE INDEX quota_windows_by_end ON quota_windows (ends_at_ms);
