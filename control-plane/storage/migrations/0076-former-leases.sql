-- Of leases of requests, too, that go before the end of their window: a PERMIT that is voided later gives back
-- its request. Replicas of the version before look only for leases of money in former_leases.
CREATE OR REPLACE TRIGGER keep_former_lease BEFORE DELETE ON quota_leases FOR EACH ROW
  WHEN (OLD.ends_at_ms > (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
  EXECUTE FUNCTION keep_former_lease();
