-- Lists and exports of attestations: who may read a record, where an export begins, and an index for every list.

-- A record has one reader or two: the owner of its passport, and the owner of its gate if that is somebody else. Without a passport
-- the owner of the gate is the first, and without both whoever asked. A reader is an account in one mode, live or test.
ALTER TABLE attestations RENAME COLUMN passport_account_id TO reader_account_id;
ALTER TABLE attestations RENAME COLUMN passport_mode TO reader_mode;
ALTER TABLE attestations RENAME COLUMN gate_account_id TO other_reader_account_id;
ALTER TABLE attestations RENAME COLUMN gate_mode TO other_reader_mode;
UPDATE attestations SET reader_account_id = other_reader_account_id, reader_mode = other_reader_mode
  WHERE reader_account_id IS NULL;
UPDATE attestations SET other_reader_account_id = NULL, other_reader_mode = NULL
  WHERE gate_id IS NULL OR (reader_account_id = other_reader_account_id AND reader_mode = other_reader_mode);
ALTER TABLE attestations
  ALTER COLUMN reader_account_id SET NOT NULL,
  ALTER COLUMN reader_mode SET NOT NULL,
  ADD CHECK (other_reader_account_id IS NULL OR (passport_id IS NOT NULL AND gate_id IS NOT NULL)),
  ADD CHECK ((reader_account_id, reader_mode) IS DISTINCT FROM (other_reader_account_id, other_reader_mode));

-- The latest time of the chain up to this record. Unlike timestamp_ms it never falls along a chain, so that the first record not older
-- than a time is found by halving, in as many steps as the length of the chain has binary digits.
ALTER TABLE attestations ADD COLUMN latest_ms bigint;
UPDATE attestations SET latest_ms = latest.ms
  FROM (
    SELECT attestation_id, max(timestamp_ms) OVER (PARTITION BY chain_id ORDER BY sequence) AS ms FROM attestations
  ) AS latest
  WHERE attestations.attestation_id = latest.attestation_id;
ALTER TABLE attestations ALTER COLUMN latest_ms SET NOT NULL;
-- The same of its last record, by which chains with nothing new are passed over; 0 for a chain that has no record yet.
ALTER TABLE chains ADD COLUMN latest_ms bigint NOT NULL DEFAULT 0;
UPDATE chains SET latest_ms = last.latest_ms
  FROM attestations AS last WHERE last.chain_id = chains.chain_id AND last.sequence = chains.sequence;

-- A list is read off an index, newest first, and stops when its page is full; what it is asked for is the beginning of the index, so that
-- no record is looked at in vain. `decision` stands before the time: without that filter, three walks are merged. list-attestations.ts
-- says which list walks where. Most records have one reader and are in the first four only.
DROP INDEX attestations_of_passport_account;
DROP INDEX attestations_of_gate_account;
DROP INDEX attestations_of_passport;
DROP INDEX attestations_of_gate;
CREATE INDEX attestations_of_reader ON attestations (reader_account_id, reader_mode, decision, timestamp_ms, position);
CREATE INDEX attestations_of_passport ON attestations (passport_id, decision, timestamp_ms, position)
  WHERE passport_id IS NOT NULL;
CREATE INDEX attestations_of_gate ON attestations (gate_id, decision, timestamp_ms, position)
  WHERE gate_id IS NOT NULL;
CREATE INDEX attestations_of_passport_at_gate ON attestations (passport_id, gate_id, decision, timestamp_ms, position)
  WHERE passport_id IS NOT NULL AND gate_id IS NOT NULL;
CREATE INDEX attestations_of_other_reader
  ON attestations (other_reader_account_id, other_reader_mode, decision, timestamp_ms, position)
  WHERE other_reader_account_id IS NOT NULL;
CREATE INDEX attestations_of_other_reader_by_passport
  ON attestations (other_reader_account_id, other_reader_mode, passport_id, decision, timestamp_ms, position)
  WHERE other_reader_account_id IS NOT NULL;
CREATE INDEX attestations_of_reader_by_foreign_gate
  ON attestations (reader_account_id, reader_mode, gate_id, decision, timestamp_ms, position)
  WHERE other_reader_account_id IS NOT NULL;
