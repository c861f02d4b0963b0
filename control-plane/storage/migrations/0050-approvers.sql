-- People who may not answer because they made the passport or the key that asked. Null: not known; then nobody
-- answers where the gate wants somebody else to.
ALTER TABLE approvals ADD COLUMN requesters text[] COLLATE "C";

CREATE TABLE approval_answers (
  approval_id text NOT NULL REFERENCES approvals ON DELETE CASCADE,
  -- From 1, in the order in which they were given.
  place integer NOT NULL CHECK (place > 0),
  -- Without a reference: an answer outlives the person's account.
  user_id text COLLATE "C" NOT NULL,
  answer text NOT NULL CHECK (answer IN ('approved', 'denied')),
  at_ms bigint NOT NULL,
  note text,
  -- Taken back; null: it stands.
  undone_at_ms bigint,
  -- What the person's passkey signed, with its public key; null: the gate asked for none.
  assertion jsonb,
  PRIMARY KEY (approval_id, place)
);
CREATE UNIQUE INDEX approval_answers_once ON approval_answers (approval_id, user_id) WHERE undone_at_ms IS NULL;

-- A replica of the version before knows neither approvers nor passkeys: it would let every key answer.
CREATE FUNCTION refuse_unanswered_approval() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (
    SELECT FROM gates WHERE gate_id = NEW.gate_id AND (
      constraints #> '{approvals,approvers}' IS NOT NULL OR constraints #> '{approvals,passkey}' = 'true'::jsonb)
  ) AND NOT EXISTS (
    SELECT FROM approval_answers
    WHERE approval_id = NEW.approval_id AND user_id = NEW.resolved_by AND undone_at_ms IS NULL
  ) THEN
    RAISE EXCEPTION 'approval % is answered by people whom its gate names', NEW.approval_id;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER approvals_answered BEFORE UPDATE OF status ON approvals FOR EACH ROW
  WHEN (OLD.status = 'pending' AND NEW.status IN ('approved', 'denied'))
  EXECUTE FUNCTION refuse_unanswered_approval();
