-- For whom the token of the first request named that its agent acts; empty: nobody, or the passport says (contract §8). Two users of one
-- agent ask for two approvals. Replicas of the version before write none.
ALTER TABLE approvals ADD COLUMN token_user text NOT NULL DEFAULT '';
CREATE UNIQUE INDEX approvals_one_pending_for_user ON approvals (passport_id, gate_id, gate_version, request_hash, token_user)
  WHERE status = 'pending';
DROP INDEX approvals_one_pending;
ALTER INDEX approvals_one_pending_for_user RENAME TO approvals_one_pending;
