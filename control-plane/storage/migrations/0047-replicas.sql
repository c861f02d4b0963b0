-- Control planes that run, and which master keys each of them has (docs/operate/hardening.md): none may seal what another does not open. Keys
-- by their ids, which tell nothing about them.
CREATE TABLE replicas (
  replica_id text COLLATE "C" PRIMARY KEY,
  seals_with text COLLATE "C" NOT NULL,
  opens text[] COLLATE "C" NOT NULL,
  -- By the clock of the database.
  seen_at_ms bigint NOT NULL
);
