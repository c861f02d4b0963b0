-- Records in half of the room: ids and hashes as bytes, and what many records repeat as the number of a name. `attestations` becomes a view
-- of them as text, for people and their queries; the programs read and write `records`.
-- A control plane of the version before is refused from here on, loudly: it would write a table that is gone (decisions/0021).

ALTER TABLE attestations RENAME TO attestations_as_text;
ALTER TABLE attestations_as_text RENAME CONSTRAINT attestations_pkey TO attestations_as_text_pkey;

-- For the records of a chain, which name it by its number.
ALTER TABLE chains ADD COLUMN number int GENERATED ALWAYS AS IDENTITY UNIQUE;

-- What records repeat: ids of gates, sidecars and signing keys, owners (`<account_id> <mode>`), reasons, lists of checks. A name never changes,
-- and is never removed.
CREATE TABLE record_names (
  number int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text NOT NULL UNIQUE
);

-- Columns stand in the order in which they need no padding. Not stored, because it follows from the rest: passport_id is the id of the chain
-- where that is the chain of a passport; the hash of a record stands in the record after it, or in the head of the chain.
CREATE TABLE records (
  -- Order of arrival.
  position bigint GENERATED ALWAYS AS IDENTITY,
  sequence bigint NOT NULL CHECK (sequence > 0),
  timestamp_ms bigint NOT NULL,
  -- The latest time of the chain up to this record; null: its own.
  latest_ms bigint CHECK (latest_ms > timestamp_ms),
  amount_micro_usd bigint,
  -- The 26 characters of the id are 128 bits.
  attestation_id uuid NOT NULL,
  -- A chain is never removed; a foreign key would be looked up for each record.
  chain int NOT NULL,
  gate int,
  -- Who may read it: the owner of the passport, and the owner of the gate if that is somebody else (0005).
  reader int NOT NULL,
  other_reader int CHECK (other_reader <> reader),
  source int NOT NULL,
  -- Null: of a build that did not keep it (0011).
  source_account int,
  signing_key int NOT NULL,
  -- The checks joined by commas, in their order.
  checks int NOT NULL,
  reason int,
  -- P(ERMIT), S(USPEND), B(LOCK).
  decision "char" NOT NULL CHECK (decision IN ('P', 'S', 'B')),
  test boolean NOT NULL,
  request_hash bytea NOT NULL,
  previous_hash bytea,
  signature bytea NOT NULL,
  permission_key text,
  resolution text,
  refers_to text,
  -- Null: nothing was found.
  pii jsonb,
  CHECK ((sequence = 1) = (previous_hash IS NULL)),
  CHECK (other_reader IS NULL OR gate IS NOT NULL)
);

-- From an id to its 128 bits: 26 characters of five bits each, of which the first has three. Only for what is converted and read as text: the
-- programs do it themselves (control-plane/attestations/id-uuid.ts).
CREATE FUNCTION uuid_of_id(id text) RETURNS uuid LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
  chars bytea := convert_to(translate(right(id, 26), '0123456789abcdefghjkmnpqrstvwxyz', '@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\]^_'), 'UTF8');
  high bigint := 0;
  low bigint := 0;
BEGIN
  FOR i IN 0..12 LOOP
    high := (high << 5) | (get_byte(chars, i) & 31);
  END LOOP;
  high := (high << 1) | ((get_byte(chars, 13) & 31) >> 4);
  FOR i IN 13..25 LOOP
    low := (low << 5) | (get_byte(chars, i) & 31);
  END LOOP;
  RETURN (lpad(to_hex(high), 16, '0') || lpad(to_hex(low), 16, '0'))::uuid;
END $$;

CREATE FUNCTION id_of_uuid(prefix text, id uuid) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
  bits bit(130) := B'00' || ('x' || replace(id::text, '-', ''))::bit(128);
  chars text := prefix || '_';
BEGIN
  FOR i IN 0..25 LOOP
    chars := chars || substr('0123456789abcdefghjkmnpqrstvwxyz', substring(bits FROM 5 * i + 1 FOR 5)::int + 1, 1);
  END LOOP;
  RETURN chars;
END $$;

-- How far 0027 has come, in blocks of the old table.
CREATE TABLE record_conversion (
  next_block bigint NOT NULL,
  blocks bigint NOT NULL
);
INSERT INTO record_conversion (next_block, blocks)
  VALUES (0, pg_relation_size('attestations_as_text') / current_setting('block_size')::bigint);
