-- Records in partitions by the month of their arrival. Applied again and again until the last statement returns no row (migrate.ts), beside
-- replicas of the version before. Nothing is copied: the table of before becomes the first partition. Each step takes its lock within half a
-- second or gives way: an export holds the table for as long as it runs, and writers would queue behind whoever waits for it.
DO $migration$
DECLARE
  is_valid boolean := (
    SELECT convalidated FROM pg_constraint WHERE conrelid = 'records'::regclass AND conname = 'records_before_months');
  this_month bigint;
  old record;
BEGIN
  PERFORM set_config('lock_timeout', '500ms', true);
  IF is_valid IS NULL THEN
    ALTER TABLE records ADD CONSTRAINT records_before_months CHECK ("position" < 68719476736) NOT VALID;
    RETURN;
  ELSIF NOT is_valid THEN
    -- Reads all records while others write; with it, ATTACH reads none.
    ALTER TABLE records VALIDATE CONSTRAINT records_before_months;
    RETURN;
  END IF;
  LOCK TABLE records IN ACCESS EXCLUSIVE MODE;

  -- Months since the year 0.
  CREATE FUNCTION record_month(moment timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN date_part('year', moment AT TIME ZONE 'UTC')::bigint * 12 + date_part('month', moment AT TIME ZONE 'UTC')::bigint - 1;
  CREATE FUNCTION record_partition(month bigint) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN 'records_' || (month / 12)::text || '_' || lpad((month % 12 + 1)::text, 2, '0');
  -- Not after the position of any record that was decided then or later: a record is dated at most a minute ahead of its arrival, and the
  -- rest of the hour is for a clock that was corrected. 0: it may be older than the partitions.
  EXECUTE format($f$
    CREATE FUNCTION records_from(decided_ms bigint) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE
      RETURN CASE WHEN decided_ms < %s THEN 0
        ELSE record_month(least(to_timestamp((decided_ms - 3600000) / 1000), statement_timestamp())) << 36 END$f$,
    (extract(epoch FROM clock_timestamp()) * 1000)::bigint + 3600000);

  DROP VIEW attestations;
  ALTER TABLE records RENAME TO records_before;
  ALTER TABLE records_before ALTER COLUMN "position" DROP IDENTITY;
  FOR old IN SELECT relname AS name FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid WHERE indrelid = 'records_before'::regclass LOOP
    EXECUTE format('ALTER INDEX %I RENAME TO %I', old.name, replace(old.name, 'records_', 'records_before_'));
  END LOOP;

  CREATE TABLE records (LIKE records_before INCLUDING CONSTRAINTS) PARTITION BY RANGE ("position");
  ALTER TABLE records DROP CONSTRAINT records_before_months;
  -- Order of arrival, with the month of the arrival above its lower 36 bits. The month is that of the statement, which runs under the lock of
  -- the chains, so that it never falls along a chain unless the clock of the database does.
  CREATE SEQUENCE record_positions;
  ALTER TABLE records ALTER COLUMN "position"
    SET DEFAULT (record_month(statement_timestamp()) << 36) | (nextval('record_positions') & 68719476735);
  ALTER SEQUENCE record_positions OWNED BY records."position";

  -- For the lists, as in 0028. Ids, and places in chains, are unique within a partition: what is unique over all of them has to contain the
  -- position. Across months the lock of the chain and a look at the id hold them unique (append-records.ts).
  CREATE INDEX records_of_reader ON ONLY records (reader, decision, record_place(timestamp_ms, position));
  CREATE INDEX records_of_chain ON ONLY records (chain, decision, record_place(timestamp_ms, position));
  CREATE INDEX records_of_gate ON ONLY records (gate, decision, record_place(timestamp_ms, position)) WHERE gate IS NOT NULL;
  CREATE INDEX records_of_chain_at_gate ON ONLY records (chain, gate, decision, record_place(timestamp_ms, position)) WHERE gate IS NOT NULL;
  CREATE INDEX records_of_other_reader ON ONLY records (other_reader, decision, record_place(timestamp_ms, position))
    WHERE other_reader IS NOT NULL;
  CREATE INDEX records_of_other_reader_by_chain ON ONLY records (other_reader, chain, decision, record_place(timestamp_ms, position))
    WHERE other_reader IS NOT NULL;
  CREATE INDEX records_of_reader_by_foreign_gate ON ONLY records (reader, gate, decision, record_place(timestamp_ms, position))
    WHERE other_reader IS NOT NULL;
  this_month := record_month(clock_timestamp());
  EXECUTE format('ALTER TABLE records ATTACH PARTITION records_before FOR VALUES FROM (MINVALUE) TO (%s)', this_month << 36);
  ALTER TABLE records_before DROP CONSTRAINT records_before_months;

  -- Makes the partitions of this month and the next two. Takes no lock that readers or writers of records wait for. For one caller at a time.
  CREATE FUNCTION make_record_partitions() RETURNS void LANGUAGE plpgsql AS $f$
  DECLARE
    month bigint;
    name text;
  BEGIN
    FOR month IN SELECT * FROM generate_series(record_month(clock_timestamp()), record_month(clock_timestamp()) + 2) LOOP
      name := record_partition(month);
      CONTINUE WHEN to_regclass(name) IS NOT NULL;
      EXECUTE format('CREATE TABLE %I (LIKE records INCLUDING CONSTRAINTS)', name);
      EXECUTE format('ALTER TABLE %I ADD CONSTRAINT %I PRIMARY KEY (attestation_id)', name, name || '_pkey');
      EXECUTE format('CREATE UNIQUE INDEX %I ON %I (chain, sequence)', name || '_in_chain', name);
      EXECUTE format('ALTER TABLE records ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', name, month << 36, (month + 1) << 36);
    END LOOP;
  END $f$;
  PERFORM make_record_partitions();

  -- As in 0028.
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
EXCEPTION WHEN lock_not_available THEN
  -- Outside of the block that failed, no lock is held.
  PERFORM pg_sleep(1);
END $migration$;

SELECT 1 AS has_more FROM pg_class WHERE oid = 'records'::regclass AND relkind <> 'p';
