-- How long an account keeps records in the database before an archive of its own takes them; without a row as long as the operator does.
CREATE TABLE retentions (
  account_id text NOT NULL REFERENCES accounts,
  mode text NOT NULL CHECK (mode IN ('live', 'test')),
  days int NOT NULL CHECK (days > 0),
  PRIMARY KEY (account_id, mode)
);

-- As archives (0046), of one account and mode. Each begins when its file is verified, and is done when the rows are gone.
CREATE TABLE account_archives (
  account_id text NOT NULL REFERENCES accounts,
  mode text NOT NULL CHECK (mode IN ('live', 'test')),
  before_month bigint NOT NULL,
  -- In the file.
  records bigint NOT NULL CHECK (records >= 0),
  -- Of chains up to this id, which archived_chains names; of all of them where removal has begun.
  marked bigint NOT NULL,
  marked_chain text COLLATE "C" NOT NULL,
  -- Rows that are gone, of chains up to this id. Null: none is removed before all are marked.
  removed bigint NOT NULL,
  removed_chain text COLLATE "C",
  begun_at_ms bigint NOT NULL,
  done_at_ms bigint,
  PRIMARY KEY (account_id, mode, before_month)
);
-- Few at any time.
CREATE INDEX account_archives_open ON account_archives (begun_at_ms) WHERE done_at_ms IS NULL;
