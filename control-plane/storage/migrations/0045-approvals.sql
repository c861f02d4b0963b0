ALTER TABLE approvals
  -- What is asked, in words for the person who answers (contract §8): {"title", "lines": [{"label", "value"}], "url"}. Null: none, or forgotten.
  ADD COLUMN display jsonb,
  -- People who may not answer because they made the passport or the key that asked. Null: not known; then nobody
  -- answers where the gate wants somebody else to.
  ADD COLUMN requesters text[] COLLATE "C",
  -- Whether the request named its passport without the token: the record of its end says so.
  ADD COLUMN asserted boolean NOT NULL DEFAULT false;
-- Those to forget.
CREATE INDEX approvals_with_display ON approvals (expires_at_ms) WHERE display IS NOT NULL;

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
  -- Who invited the person, as the answer was given: it outlives the person.
  invited_by text,
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

-- Channels that notify people of approvals, and their messages (docs/channels.md).

CREATE TABLE channels (
  channel_id text COLLATE "C" PRIMARY KEY,
  account_id text NOT NULL REFERENCES accounts,
  mode text NOT NULL CHECK (mode IN ('live', 'test')),
  -- NULL: of the account, for gates without channels of their own.
  gate_id text COLLATE "C",
  kind text NOT NULL CHECK (kind IN ('slack', 'email', 'webhook')),
  name text NOT NULL,
  -- As the API shows it: of a URL only its host and its last characters.
  shown_target text NOT NULL,
  target_hash text NOT NULL,
  -- {"target", "secret"}, sealed with MASTER_KEY.
  sealed_target text NOT NULL,
  after_ms bigint NOT NULL CHECK (after_ms >= 0),
  events text[] NOT NULL,
  status text NOT NULL CHECK (status IN ('enabled', 'disabled')),
  disabled_reason text CHECK (disabled_reason IN ('owner', 'gone', 'failing')),
  -- Goes up with each change by the owner: the entity tag.
  version integer NOT NULL DEFAULT 1,
  -- Goes up when the channel begins anew, as that of webhooks does.
  era integer NOT NULL DEFAULT 0,
  -- Of the attempts since the last success.
  failing_since_ms bigint,
  failures integer NOT NULL DEFAULT 0,
  last_error_code text,
  last_error_detail text,
  last_error_at_ms bigint,
  last_sent_at_ms bigint,
  -- The other side has asked for no more until then.
  paused_until_ms bigint,
  created_at_ms bigint NOT NULL,
  updated_at_ms bigint NOT NULL,
  -- Messages to people are spread over time (channels/pace.ts): until when those that were sent use up the channel's allowance.
  pace_at_ms bigint,
  CHECK ((status = 'enabled') = (disabled_reason IS NULL))
);
CREATE INDEX channels_of_account ON channels (account_id, mode, channel_id);
-- Read by every transaction that opens an approval.
CREATE INDEX channels_enabled ON channels (account_id, mode) WHERE status = 'enabled';

-- A message tells one channel of the beginning or the end of one approval. It is rendered when it is sent. No references, as for deliveries of
-- webhooks.
CREATE TABLE channel_messages (
  approval_id text COLLATE "C" NOT NULL,
  channel_id text COLLATE "C" NOT NULL,
  event text NOT NULL CHECK (event IN ('approval.requested', 'approval.resolved')),
  -- cancelled: the approval had ended, or its beginning was not sent.
  status text NOT NULL CHECK (status IN ('pending', 'sent', 'failed', 'cancelled')),
  tries integer NOT NULL DEFAULT 0 CHECK (tries >= 0),
  -- While an attempt is under way: when its lock ends.
  next_attempt_at_ms bigint,
  claimed_by text,
  -- When it was due first.
  due_at_ms bigint NOT NULL,
  PRIMARY KEY (approval_id, channel_id, event),
  CHECK ((status = 'pending') = (next_attempt_at_ms IS NOT NULL)),
  CHECK (claimed_by IS NULL OR next_attempt_at_ms IS NOT NULL)
);
CREATE INDEX channel_messages_due ON channel_messages (channel_id, next_attempt_at_ms) WHERE next_attempt_at_ms IS NOT NULL;
