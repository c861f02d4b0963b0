-- The one in `body`; records are held against it.
ALTER TABLE policies ADD COLUMN trust_level text NOT NULL GENERATED ALWAYS AS (body::jsonb ->> 'trust_level') STORED;
CREATE INDEX gate_policies_by_hash ON gate_policies (policy_hash, gate_id);

-- One row. When a database that the version before had used was upgraded; NULL: it was made by this version or a later one. Records are in
-- form 2 from RECORDS_V2_AFTER_S behind that time on, so that until then the version before can take the place of this one.
CREATE TABLE record_form (
  is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
  upgraded_at_ms bigint
);
INSERT INTO record_form (upgraded_at_ms)
SELECT CASE WHEN EXISTS (SELECT FROM accounts) THEN (extract(epoch FROM clock_timestamp()) * 1000)::bigint END;

-- The members of records in form 2 (contract §9). `asserted` NULL: a record in form 1. `policy` and `wallet` are numbers of record_names, and
-- `proof` is the first letter of its word. Replicas of the version before write none of them, and must not read a record that has them: they
-- would leave the members out of its hash.
ALTER TABLE records
  ADD COLUMN asserted boolean,
  ADD COLUMN trust_level "char",
  ADD COLUMN policy integer,
  ADD COLUMN state_age_ms integer,
  ADD COLUMN domain text,
  ADD COLUMN approval_id text,
  ADD COLUMN wallet integer,
  ADD COLUMN hold_expires_ms bigint,
  ADD COLUMN proof "char";

-- As in 0045, with the new members at the end.
CREATE OR REPLACE VIEW attestations AS
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
  split_part(other_reader.name, ' ', 1) AS other_reader_account_id, split_part(other_reader.name, ' ', 2) AS other_reader_mode,
  policy.name AS policy_hash, 'L' || record.trust_level::text AS trust_level, record.state_age_ms, record.domain, record.approval_id,
  wallet.name AS wallet_id, record.hold_expires_ms, CASE record.proof WHEN 'd' THEN 'dpop' WHEN 'h' THEN 'httpsig' END AS proof, record.asserted
FROM records AS record
JOIN chains ON chains.number = record.chain
JOIN record_names AS reader ON reader.number = record.reader
JOIN record_names AS source ON source.number = record.source
JOIN record_names AS signing_key ON signing_key.number = record.signing_key
JOIN record_names AS checks ON checks.number = record.checks
LEFT JOIN record_names AS gate ON gate.number = record.gate
LEFT JOIN record_names AS other_reader ON other_reader.number = record.other_reader
LEFT JOIN record_names AS source_account ON source_account.number = record.source_account
LEFT JOIN record_names AS reason ON reason.number = record.reason
LEFT JOIN record_names AS policy ON policy.number = record.policy
LEFT JOIN record_names AS wallet ON wallet.number = record.wallet;
