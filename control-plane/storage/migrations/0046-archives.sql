-- Records that left the database for files.

-- Up to which record a chain is in archives; a row only for chains of which something is.
CREATE TABLE archived_chains (
  chain int PRIMARY KEY,
  sequence bigint NOT NULL CHECK (sequence > 0),
  -- Of that record.
  hash text NOT NULL
);

-- Each begins when its files are verified, and is done when the partitions are gone.
CREATE TABLE archives (
  -- Records that arrived before this month (record_month).
  before_month bigint PRIMARY KEY,
  -- In the files.
  records bigint NOT NULL CHECK (records >= 0),
  -- Of chains up to this number, which archived_chains names.
  marked bigint NOT NULL,
  marked_chain int NOT NULL,
  begun_at_ms bigint NOT NULL,
  done_at_ms bigint
);
