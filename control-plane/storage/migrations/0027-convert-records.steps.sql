-- Applied again and again until the last statement returns no row (migrate.ts): each time about 20,000 records of the old table, in the order
-- in which they lie there. A start that is stopped goes on behind the last step.
INSERT INTO record_names (name)
SELECT DISTINCT name
FROM attestations_as_text AS old
CROSS JOIN LATERAL (VALUES
  (old.gate_id), (old.source), (old.source_account), (old.signing_key_id), (old.reason),
  (old.reader_account_id || ' ' || old.reader_mode), (old.other_reader_account_id || ' ' || old.other_reader_mode),
  (array_to_string(old.constraints_evaluated, ','))
) AS named (name)
WHERE name IS NOT NULL
  AND old.ctid >= (SELECT format('(%s,0)', next_block)::tid FROM record_conversion)
  AND old.ctid < (SELECT format('(%s,0)', next_block + 2000)::tid FROM record_conversion)
ON CONFLICT (name) DO NOTHING;

INSERT INTO records (position, sequence, timestamp_ms, latest_ms, amount_micro_usd, attestation_id, chain, gate, reader, other_reader, source,
  source_account, signing_key, checks, reason, decision, test, request_hash, previous_hash, signature, permission_key, resolution, refers_to, pii)
OVERRIDING SYSTEM VALUE
SELECT old.position, old.sequence, old.timestamp_ms, nullif(old.latest_ms, old.timestamp_ms), old.amount_micro_usd,
  uuid_of_id(old.attestation_id),
  -- A record that breaks the rule by which passport_id is left out has no chain, and is refused.
  CASE WHEN old.passport_id IS NOT DISTINCT FROM CASE WHEN starts_with(old.chain_id, 'pass_') THEN old.chain_id END THEN chains.number END,
  gate.number, reader.number, other_reader.number, source.number, source_account.number, signing_key.number, checks.number, reason.number,
  left(old.decision, 1)::"char", old.test, decode(substr(old.request_hash, 8), 'hex'), decode(substr(old.previous_hash, 8), 'hex'),
  decode(translate(old.signature, '-_', '+/') || '==', 'base64'), old.permission_key, old.resolution, old.refers_to,
  nullif(old.pii, '[]'::jsonb)
FROM attestations_as_text AS old
JOIN chains USING (chain_id)
JOIN record_names AS reader ON reader.name = old.reader_account_id || ' ' || old.reader_mode
JOIN record_names AS source ON source.name = old.source
JOIN record_names AS signing_key ON signing_key.name = old.signing_key_id
JOIN record_names AS checks ON checks.name = array_to_string(old.constraints_evaluated, ',')
LEFT JOIN record_names AS gate ON gate.name = old.gate_id
LEFT JOIN record_names AS other_reader ON other_reader.name = old.other_reader_account_id || ' ' || old.other_reader_mode
LEFT JOIN record_names AS source_account ON source_account.name = old.source_account
LEFT JOIN record_names AS reason ON reason.name = old.reason
WHERE old.ctid >= (SELECT format('(%s,0)', next_block)::tid FROM record_conversion)
  AND old.ctid < (SELECT format('(%s,0)', next_block + 2000)::tid FROM record_conversion);

UPDATE record_conversion SET next_block = next_block + 2000 WHERE next_block < blocks RETURNING next_block;
