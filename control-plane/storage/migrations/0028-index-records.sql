-- Indexes come after the records: so they are built in one pass each, and packed.
ALTER TABLE records ADD PRIMARY KEY (attestation_id);
CREATE UNIQUE INDEX records_in_chain ON records (chain, sequence);
-- Where a record stands in a list: by its time, and of those of one millisecond by the last 20 bits of its position. One number of eight bytes,
-- because most pages of these indexes are half full. Two records share one only where a million came between them within a millisecond.
CREATE FUNCTION record_place(timestamp_ms bigint, "position" bigint) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN (timestamp_ms << 20) | ("position" & 1048575);
-- For the lists: the same as in 0005, with numbers.
CREATE INDEX records_of_reader ON records (reader, decision, record_place(timestamp_ms, position));
CREATE INDEX records_of_chain ON records (chain, decision, record_place(timestamp_ms, position));
CREATE INDEX records_of_gate ON records (gate, decision, record_place(timestamp_ms, position)) WHERE gate IS NOT NULL;
CREATE INDEX records_of_chain_at_gate ON records (chain, gate, decision, record_place(timestamp_ms, position)) WHERE gate IS NOT NULL;
CREATE INDEX records_of_other_reader ON records (other_reader, decision, record_place(timestamp_ms, position)) WHERE other_reader IS NOT NULL;
CREATE INDEX records_of_other_reader_by_chain ON records (other_reader, chain, decision, record_place(timestamp_ms, position))
  WHERE other_reader IS NOT NULL;
CREATE INDEX records_of_reader_by_foreign_gate ON records (reader, gate, decision, record_place(timestamp_ms, position)) WHERE other_reader IS NOT NULL;

SELECT setval(pg_get_serial_sequence('records', 'position'), (SELECT max(position) FROM records))
  WHERE EXISTS (SELECT FROM records);
DROP TABLE attestations_as_text;
DROP TABLE record_conversion;
DROP FUNCTION uuid_of_id;
ANALYZE records;

-- Records as text. For people: each row computes its ids, so that a condition on attestation_id reads every record.
CREATE VIEW attestations AS
SELECT record.position, id_of_uuid('att', record.attestation_id) AS attestation_id, chains.chain_id, record.sequence,
  'sha256:' || encode(record.previous_hash, 'hex') AS previous_hash,
  coalesce(
    (SELECT 'sha256:' || encode(next.previous_hash, 'hex') FROM records next
      WHERE next.chain = record.chain AND next.sequence = record.sequence + 1),
    chains.hash) AS hash,
  rtrim(translate(encode(record.signature, 'base64'), E'+/\n', '-_'), '=') AS signature,
  signing_key.name AS signing_key_id,
  CASE WHEN starts_with(chains.chain_id, 'pass_') THEN chains.chain_id END AS passport_id,
  gate.name AS gate_id,
  CASE record.decision WHEN 'P' THEN 'PERMIT' WHEN 'S' THEN 'SUSPEND' ELSE 'BLOCK' END AS decision,
  reason.name AS reason, 'sha256:' || encode(record.request_hash, 'hex') AS request_hash, record.permission_key, record.amount_micro_usd,
  string_to_array(checks.name, ',') AS constraints_evaluated, coalesce(record.pii, '[]'::jsonb) AS pii, record.test, record.resolution,
  record.refers_to, source.name AS source, source_account.name AS source_account, record.timestamp_ms,
  coalesce(record.latest_ms, record.timestamp_ms) AS latest_ms,
  split_part(reader.name, ' ', 1) AS reader_account_id, split_part(reader.name, ' ', 2) AS reader_mode,
  split_part(other_reader.name, ' ', 1) AS other_reader_account_id, split_part(other_reader.name, ' ', 2) AS other_reader_mode
FROM records AS record
JOIN chains ON chains.number = record.chain
JOIN record_names AS reader ON reader.number = record.reader
JOIN record_names AS source ON source.number = record.source
JOIN record_names AS signing_key ON signing_key.number = record.signing_key
JOIN record_names AS checks ON checks.number = record.checks
LEFT JOIN record_names AS gate ON gate.number = record.gate
LEFT JOIN record_names AS other_reader ON other_reader.number = record.other_reader
LEFT JOIN record_names AS source_account ON source_account.number = record.source_account
LEFT JOIN record_names AS reason ON reason.number = record.reason;
