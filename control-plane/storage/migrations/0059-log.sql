-- The transparency log (contract §9).

-- Keys of purpose log, in a table of their own: the version before publishes every row of signing_keys to sidecars, which refuse a purpose that
-- they do not know. Otherwise as signing_keys.
CREATE TABLE log_keys (
  kid text PRIMARY KEY,
  purpose text NOT NULL CHECK (purpose = 'log'),
  public_key text NOT NULL,
  sealed_private_key text NOT NULL,
  not_before_ms bigint NOT NULL,
  retired_at_ms bigint,
  compromised boolean NOT NULL DEFAULT false,
  created_at_ms bigint NOT NULL
);

-- The newest one grows. A recovery that finds a witness ahead begins the next one.
CREATE TABLE log_trees (
  log integer PRIMARY KEY CHECK (log > 0),
  origin text COLLATE "C" NOT NULL UNIQUE,
  begun_at_ms bigint NOT NULL,
  size bigint NOT NULL CHECK (size >= 0),
  root bytea NOT NULL,
  -- The checkpoint of this tree, as the service alone signed it; null: nothing is signed yet.
  signed text,
  signed_at_ms bigint,
  -- As it is served, with cosignatures where there are any.
  published text,
  published_size bigint NOT NULL DEFAULT 0,
  published_at_ms bigint,
  -- The newest one with the quorum of its witnesses.
  witnessed text,
  witnessed_size bigint NOT NULL DEFAULT 0,
  witnessed_at_ms bigint,
  -- The one replica that appends, until then.
  writer text COLLATE "C",
  writer_until_ms bigint NOT NULL DEFAULT 0,
  CHECK (published_size <= size AND witnessed_size <= size)
);
-- Whatever a program does, nothing that was given out goes back.
CREATE FUNCTION log_tree_grows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.size < OLD.size OR NEW.published_size < OLD.published_size OR NEW.witnessed_size < OLD.witnessed_size
    OR (NEW.size = OLD.size AND NEW.root <> OLD.root) OR NEW.origin <> OLD.origin THEN
    RAISE EXCEPTION 'log % does not go back', OLD.log;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER log_tree_grows BEFORE UPDATE ON log_trees FOR EACH ROW EXECUTE FUNCTION log_tree_grows();

-- C2SP tlog-tiles; the last of each level is partial.
CREATE TABLE log_tiles (
  log integer NOT NULL,
  level integer NOT NULL,
  number bigint NOT NULL,
  hashes bytea NOT NULL,
  PRIMARY KEY (log, level, number)
);
-- They are hashes.
ALTER TABLE log_tiles ALTER COLUMN hashes SET STORAGE EXTERNAL;

-- What each entry stands for: its hash is in the tree.
CREATE TABLE log_entries (
  log integer NOT NULL,
  entry bigint NOT NULL,
  chain_id text COLLATE "C" NOT NULL,
  sequence bigint NOT NULL,
  hash bytea NOT NULL,
  PRIMARY KEY (log, entry)
);
CREATE INDEX log_entries_of_chain ON log_entries (log, chain_id, sequence);

-- Up to where each chain is in the newest log.
CREATE TABLE logged_heads (
  chain_id text COLLATE "C" PRIMARY KEY,
  log integer NOT NULL,
  sequence bigint NOT NULL
) WITH (fillfactor = 80);

-- What the writer heard from each witness last.
CREATE TABLE log_witnesses (
  witness text COLLATE "C" PRIMARY KEY,
  fault text COLLATE "C",
  -- Of the newest checkpoint that it cosigned.
  size bigint NOT NULL DEFAULT 0,
  cosigned_at_ms bigint,
  asked_at_ms bigint NOT NULL
);

-- As known_heads: a tree that a witness showed, signed by this service, and that the log here does not contain.
CREATE TABLE known_trees (
  in_generation integer NOT NULL REFERENCES generations,
  witness text COLLATE "C" NOT NULL,
  origin text COLLATE "C" NOT NULL,
  size bigint NOT NULL,
  root text NOT NULL,
  lost bigint NOT NULL CHECK (lost > 0),
  checkpoint text NOT NULL,
  noticed_at_ms bigint NOT NULL,
  PRIMARY KEY (in_generation, witness)
);
