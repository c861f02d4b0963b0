-- The names of this database's histories, newest last (contract §17). A copy of a database has the same ones, so that what goes on from an
-- older copy is told from what went on from the newer one by what the service has told its sidecars.
CREATE TABLE generations (
  number integer PRIMARY KEY CHECK (number > 0),
  generation text COLLATE "C" NOT NULL UNIQUE,
  begun_at_ms bigint NOT NULL
);
INSERT INTO generations (number, generation, begun_at_ms)
VALUES (1, 'gen_' || replace(gen_random_uuid()::text, '-', ''), (extract(epoch FROM clock_timestamp()) * 1000)::bigint);

-- What was told to a sidecar and is not in this database, by the generation in which that was noticed. While the newest generation has rows
-- here, history has gone back. `lost`: how many revisions or records lay after the end of the feed or chain when it was noticed; at least 1.
CREATE TABLE known_heads (
  in_generation integer NOT NULL REFERENCES generations,
  feed_id text COLLATE "C" NOT NULL,
  revision bigint NOT NULL,
  mark text NOT NULL,
  lost bigint NOT NULL CHECK (lost > 0),
  noticed_at_ms bigint NOT NULL,
  PRIMARY KEY (in_generation, feed_id)
);
CREATE TABLE known_places (
  in_generation integer NOT NULL REFERENCES generations,
  chain_id text COLLATE "C" NOT NULL,
  sequence bigint NOT NULL,
  hash text NOT NULL,
  lost bigint NOT NULL CHECK (lost > 0),
  noticed_at_ms bigint NOT NULL,
  PRIMARY KEY (in_generation, chain_id)
);
-- What was revoked, suspended or deleted by what a sidecar knows, and is not here: to be done once more by a recovery. `gate_policy`: a later
-- policy of the gate was in force.
CREATE TABLE known_ends (
  in_generation integer NOT NULL REFERENCES generations,
  kind text NOT NULL,
  id text COLLATE "C" NOT NULL,
  account_id text COLLATE "C" NOT NULL,
  mode text,
  standing text NOT NULL CHECK (standing IN ('suspended', 'revoked', 'deleted', 'changed')),
  -- Of an issuer of others: its settings and keys, as sidecars knew them.
  detail jsonb,
  expired_by_day bigint,
  PRIMARY KEY (in_generation, kind, id),
  CONSTRAINT known_ends_kind_check
    CHECK (kind IN ('passport', 'owner', 'unnamed', 'issuer', 'federation', 'account', 'gate', 'api_key', 'gate_policy'))
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

-- Passports and owners that a recovery took back (contract §17), of which the database has no name: they were
-- made, or first seen, after the backup. Sidecars know them by these digests alone.
CREATE TABLE unnamed_ends (
  digest bytea PRIMARY KEY,
  standing text NOT NULL CHECK (standing IN ('suspended', 'revoked')),
  expired_by_day bigint
);

-- Keys of sidecars whose receipts prove nothing any more (contract §9). As many as an operator revokes.
CREATE TABLE revoked_sidecar_keys (
  kid text PRIMARY KEY,
  revoked_at_ms bigint NOT NULL
);

-- When a sidecar said that it stops. Null: it has not said so since it connected last.
ALTER TABLE sidecars ADD COLUMN stopped_at_ms bigint;

-- A sidecar that calls it has not stopped, or a revocation would not wait for it.
CREATE FUNCTION sidecar_is_back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.stopped_at_ms := NULL;
  RETURN NEW;
END $$;
CREATE TRIGGER sidecar_is_back BEFORE UPDATE OF last_seen_at_ms ON sidecars FOR EACH ROW
  WHEN (OLD.stopped_at_ms IS NOT NULL AND NEW.stopped_at_ms = OLD.stopped_at_ms)
  EXECUTE FUNCTION sidecar_is_back();
