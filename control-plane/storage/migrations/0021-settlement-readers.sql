-- A request that may be answered with the settlement of another one has a row of its own, until it says that it was not: `reads` is that settlement.
ALTER TABLE settlements ADD COLUMN reads text;
CREATE INDEX settlements_by_reads ON settlements (reads) WHERE reads IS NOT NULL;
-- Its own client was told that it came to nothing. It is void as soon as nobody reads it.
ALTER TABLE settlements ADD COLUMN is_withdrawn boolean NOT NULL DEFAULT false;
UPDATE settlements SET is_withdrawn = true WHERE is_void;
