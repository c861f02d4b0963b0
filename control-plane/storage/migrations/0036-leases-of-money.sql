-- What comes back of a lease is bounded by what that very lease has, used or not.

-- used: units that PERMITs took and that are subtracted from units by now, less what voids gave back. It may be below zero while posts of
-- what was given back wait to be subtracted. units + used is what the ledger still counts for this lease, and never grows but by a grant.
-- made_at_ms: of the first grant. A record from before it means another lease: numbers are given anew after a restore.
ALTER TABLE quota_leases ADD COLUMN used bigint NOT NULL DEFAULT 0, ADD COLUMN made_at_ms bigint NOT NULL DEFAULT 0,
  -- The totals of standing approvals are counted in a window that is none of the calendar. Not validated: all rows before have met the
  -- stricter check.
  DROP CONSTRAINT quota_leases_window_name_check,
  ADD CONSTRAINT quota_leases_window_name_check CHECK (window_name IN ('minute', 'hour', 'day', 'month', 'total')) NOT VALID;
ALTER TABLE quota_windows DROP CONSTRAINT quota_windows_window_name_check,
  ADD CONSTRAINT quota_windows_window_name_check CHECK (window_name IN ('minute', 'hour', 'day', 'month', 'total')) NOT VALID;

-- held: what of the sum open holds have. Money that comes back is added with a sign, and wallets have sums, too.
ALTER TABLE quota_spend ADD COLUMN held bigint NOT NULL DEFAULT 0,
  DROP CONSTRAINT quota_spend_spent_check,
  DROP CONSTRAINT quota_spend_window_name_check,
  ADD CONSTRAINT quota_spend_window_name_check CHECK (window_name IN ('hour', 'day', 'month', 'total')) NOT VALID;

-- What of a window is lent, and to whom, for requests that find it dry and for the usage of wallets.
CREATE INDEX quota_leases_of_window ON quota_leases (counter, window_name, starts_at_ms);

-- What leases had posted when they went before the end of their window, with their holder: what comes back later is bounded by it. Kept up by
-- a trigger, because replicas of the version before remove leases, too.
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
  WHEN (OLD.ends_at_ms > (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
  EXECUTE FUNCTION keep_former_lease();
