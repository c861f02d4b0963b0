-- The members of records in form 2 (contract §9). `asserted` NULL: a record in form 1. `policy`, `wallet` and `wallet_path` are numbers of
-- record_names: the name of a path is its digests with commas between them, '' for none. `proof` is the first letter of its word. `carried`
-- is the text of those that only newer sidecars write; NULL: none has a value. Replicas of the version before write no member of form 2, and
-- must not read a record that has them: they would leave them out of its hash.
ALTER TABLE records
  ADD COLUMN asserted boolean,
  ADD COLUMN trust_level "char",
  ADD COLUMN policy integer,
  ADD COLUMN state_age_ms integer,
  ADD COLUMN domain text,
  ADD COLUMN approval_id text,
  ADD COLUMN wallet integer,
  ADD COLUMN hold_expires_ms bigint,
  ADD COLUMN proof "char",
  ADD COLUMN wallet_path integer,
  ADD COLUMN carried json,
  -- Where a PERMIT took its money (contract §19): numbers of leases, or windows of the ledger as [counter, window_name, starts_at_ms]. NULL: it
  -- took none, or was stored by the version before; then no money goes back.
  ADD COLUMN money_from jsonb;

-- As in 0041, with the new members at the end.
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
  wallet.name AS wallet_id, record.hold_expires_ms, CASE record.proof WHEN 'd' THEN 'dpop' WHEN 'h' THEN 'httpsig' END AS proof, record.asserted,
  CASE wallet_path.name WHEN '' THEN '{}'::text[] ELSE string_to_array(wallet_path.name, ',') END AS wallet_path, record.carried
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
LEFT JOIN record_names AS wallet ON wallet.number = record.wallet
LEFT JOIN record_names AS wallet_path ON wallet_path.number = record.wallet_path;

-- One row. When a database that the version before had used was upgraded; NULL: it was made by this version or a later one. Records are in
-- form 2 from RECORDS_V2_AFTER_S after that time on, so that until then the version before can take the place of this one.
CREATE TABLE record_form (
  is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
  upgraded_at_ms bigint
);
INSERT INTO record_form (upgraded_at_ms)
SELECT CASE WHEN EXISTS (SELECT FROM accounts) THEN (extract(epoch FROM clock_timestamp()) * 1000)::bigint END;

-- Records that left the database for files.

-- Up to which record a chain is in archives; a row only for chains of which something is.
CREATE TABLE archived_chains (
  chain int PRIMARY KEY,
  sequence bigint NOT NULL CHECK (sequence > 0),
  -- Of that record.
  hash text NOT NULL
);

-- Each begins when its files are verified, and is done when the partitions are gone.
CREATE TABLE archives (
  -- Records that arrived before this month (record_month).
  before_month bigint PRIMARY KEY,
  -- In the files.
  records bigint NOT NULL CHECK (records >= 0),
  -- Of chains up to this number, which archived_chains names.
  marked bigint NOT NULL,
  marked_chain int NOT NULL,
  begun_at_ms bigint NOT NULL,
  done_at_ms bigint
);

-- How long an account keeps records in the database before an archive of its own takes them; without a row as long as the operator does.
CREATE TABLE retentions (
  account_id text NOT NULL REFERENCES accounts,
  mode text NOT NULL CHECK (mode IN ('live', 'test')),
  days int NOT NULL CHECK (days > 0),
  PRIMARY KEY (account_id, mode)
);

-- As archives, of one account and mode. Each begins when its file is verified, and is done when the rows are gone.
CREATE TABLE account_archives (
  account_id text NOT NULL REFERENCES accounts,
  mode text NOT NULL CHECK (mode IN ('live', 'test')),
  before_month bigint NOT NULL,
  -- In the file.
  records bigint NOT NULL CHECK (records >= 0),
  -- Of chains up to this id, which archived_chains names; of all of them where removal has begun.
  marked bigint NOT NULL,
  marked_chain text COLLATE "C" NOT NULL,
  -- Rows that are gone, of chains up to this id. Null: none is removed before all are marked.
  removed bigint NOT NULL,
  removed_chain text COLLATE "C",
  begun_at_ms bigint NOT NULL,
  done_at_ms bigint,
  PRIMARY KEY (account_id, mode, before_month)
);
-- Few at any time.
CREATE INDEX account_archives_open ON account_archives (begun_at_ms) WHERE done_at_ms IS NULL;

-- What decides at gates, kept for ever (contract §9): records name the policy by its hash. `body` is its RFC 8785 form, over which the hash is
-- made; the signature is over the hash.
CREATE TABLE policies (
  policy_hash text PRIMARY KEY,
  body text NOT NULL,
  signature text NOT NULL,
  signing_key_id text NOT NULL,
  first_used_at_ms bigint NOT NULL,
  -- The one in `body`; records are held against it.
  trust_level text NOT NULL GENERATED ALWAYS AS (body::jsonb ->> 'trust_level') STORED
);
-- The policy of each version of a gate. None: the version was published by a replica of the version before, and is kept in the background.
CREATE TABLE gate_policies (
  gate_id text NOT NULL REFERENCES gates,
  policy_version bigint NOT NULL,
  policy_hash text NOT NULL REFERENCES policies,
  since_ms bigint NOT NULL,
  PRIMARY KEY (gate_id, policy_version)
);
CREATE INDEX gate_policies_by_hash ON gate_policies (policy_hash, gate_id);

-- The transparency log (contract §9).

-- Keys of purpose log, in a table of their own: the version before publishes every row of signing_keys to sidecars, which refuse a purpose that
-- they do not know. Otherwise as signing_keys.
CREATE TABLE log_keys (
  kid text PRIMARY KEY,
  purpose text NOT NULL CHECK (purpose = 'log'),
  public_key text NOT NULL,
  sealed_private_key text NOT NULL,
  not_before_ms bigint NOT NULL,
  retired_at_ms bigint,
  compromised boolean NOT NULL DEFAULT false,
  created_at_ms bigint NOT NULL
);

-- The newest one grows. A recovery that finds a witness ahead begins the next one.
CREATE TABLE log_trees (
  log integer PRIMARY KEY CHECK (log > 0),
  origin text COLLATE "C" NOT NULL UNIQUE,
  begun_at_ms bigint NOT NULL,
  size bigint NOT NULL CHECK (size >= 0),
  root bytea NOT NULL,
  -- The checkpoint of this tree, as the service alone signed it; null: nothing is signed yet.
  signed text,
  signed_at_ms bigint,
  -- As it is served, with cosignatures where there are any.
  published text,
  published_size bigint NOT NULL DEFAULT 0,
  published_at_ms bigint,
  -- The newest one with the quorum of its witnesses.
  witnessed text,
  witnessed_size bigint NOT NULL DEFAULT 0,
  witnessed_at_ms bigint,
  -- The one replica that appends, until then.
  writer text COLLATE "C",
  writer_until_ms bigint NOT NULL DEFAULT 0,
  CHECK (published_size <= size AND witnessed_size <= size)
);
-- Whatever a program does, nothing that was given out goes back.
CREATE FUNCTION log_tree_grows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.size < OLD.size OR NEW.published_size < OLD.published_size OR NEW.witnessed_size < OLD.witnessed_size
    OR (NEW.size = OLD.size AND NEW.root <> OLD.root) OR NEW.origin <> OLD.origin THEN
    RAISE EXCEPTION 'log % does not go back', OLD.log;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER log_tree_grows BEFORE UPDATE ON log_trees FOR EACH ROW EXECUTE FUNCTION log_tree_grows();

-- C2SP tlog-tiles; the last of each level is partial.
CREATE TABLE log_tiles (
  log integer NOT NULL,
  level integer NOT NULL,
  number bigint NOT NULL,
  hashes bytea NOT NULL,
  PRIMARY KEY (log, level, number)
);
-- They are hashes.
ALTER TABLE log_tiles ALTER COLUMN hashes SET STORAGE EXTERNAL;

-- What each entry stands for: its hash is in the tree.
CREATE TABLE log_entries (
  log integer NOT NULL,
  entry bigint NOT NULL,
  chain_id text COLLATE "C" NOT NULL,
  sequence bigint NOT NULL,
  hash bytea NOT NULL,
  PRIMARY KEY (log, entry)
);
CREATE INDEX log_entries_of_chain ON log_entries (log, chain_id, sequence);

-- Up to where each chain is in the newest log.
CREATE TABLE logged_heads (
  chain_id text COLLATE "C" PRIMARY KEY,
  log integer NOT NULL,
  sequence bigint NOT NULL
) WITH (fillfactor = 80);

-- What the writer heard from each witness last.
CREATE TABLE log_witnesses (
  witness text COLLATE "C" PRIMARY KEY,
  fault text COLLATE "C",
  -- Of the newest checkpoint that it cosigned.
  size bigint NOT NULL DEFAULT 0,
  cosigned_at_ms bigint,
  asked_at_ms bigint NOT NULL
);
