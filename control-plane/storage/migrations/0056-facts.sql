-- What opens the commitments of records: values that decisions read, and their salts (contract §9). Beside the records, so that they can go
-- without them. `owner` is the account and mode that may read them, as in records; `facts` an array of OpeningFact (shared/wire/evidence/
-- fact.ts). In partitions by the month of arrival, which leave with those of the records.
CREATE TABLE attestation_facts (
  owner int NOT NULL,
  attestation_id uuid NOT NULL,
  chain int NOT NULL,
  month bigint NOT NULL DEFAULT record_month(statement_timestamp()),
  facts text NOT NULL
) PARTITION BY RANGE (month);

-- As in 0041, and the same months of attestation_facts: a replica of the version before makes both.
CREATE OR REPLACE FUNCTION make_record_partitions() RETURNS void LANGUAGE plpgsql AS $f$
DECLARE
  month bigint;
  name text;
BEGIN
  FOR month IN SELECT * FROM generate_series(record_month(clock_timestamp()), record_month(clock_timestamp()) + 2) LOOP
    name := record_partition(month);
    IF to_regclass(name) IS NULL THEN
      EXECUTE format('CREATE TABLE %I (LIKE records INCLUDING CONSTRAINTS)', name);
      EXECUTE format('ALTER TABLE %I ADD CONSTRAINT %I PRIMARY KEY (attestation_id)', name, name || '_pkey');
      EXECUTE format('CREATE UNIQUE INDEX %I ON %I (chain, sequence)', name || '_in_chain', name);
      EXECUTE format('ALTER TABLE records ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', name, month << 36, (month + 1) << 36);
    END IF;
    name := 'attestation_facts_' || (month / 12)::text || '_' || lpad((month % 12 + 1)::text, 2, '0');
    IF to_regclass(name) IS NULL THEN
      EXECUTE format('CREATE TABLE %I (LIKE attestation_facts INCLUDING DEFAULTS)', name);
      -- Ids begin with the time of the decision: what is older than an owner keeps is one range.
      EXECUTE format('ALTER TABLE %I ADD CONSTRAINT %I PRIMARY KEY (owner, attestation_id)', name, name || '_pkey');
      EXECUTE format('CREATE INDEX %I ON %I (chain, owner)', name || '_of_chain', name);
      EXECUTE format('ALTER TABLE attestation_facts ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', name, month, month + 1);
    END IF;
  END LOOP;
END $f$;
SELECT make_record_partitions();

-- How long an account keeps facts, in days; without a row as long as their records. Apart from retentions, whose rows the version before removes.
CREATE TABLE fact_retentions (
  account_id text NOT NULL REFERENCES accounts,
  mode text NOT NULL CHECK (mode IN ('live', 'test')),
  days int NOT NULL CHECK (days > 0),
  PRIMARY KEY (account_id, mode)
);
