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
-- here, history has gone back. `lost`: how many revisions or records lay behind the end of the feed or chain when it was noticed; at least 1.
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
  kind text NOT NULL CHECK (kind IN ('passport', 'issuer', 'account', 'gate', 'api_key', 'gate_policy')),
  id text COLLATE "C" NOT NULL,
  account_id text COLLATE "C" NOT NULL,
  mode text,
  standing text NOT NULL CHECK (standing IN ('suspended', 'revoked', 'deleted', 'changed')),
  PRIMARY KEY (in_generation, kind, id)
);
