-- What comes back of a lease is bounded by what that very lease has, used or not.

-- used: units that PERMITs took and that are subtracted from units by now, less what voids gave back. It may be below zero while posts of
-- what was given back wait to be subtracted. units + used is what the ledger still counts for this lease, and never grows but by a grant.
-- made_at_ms: of the first grant. A record from before it means another lease: numbers are given anew after a restore.
ALTER TABLE quota_leases ADD COLUMN used bigint NOT NULL DEFAULT 0, ADD COLUMN made_at_ms bigint NOT NULL DEFAULT 0;
