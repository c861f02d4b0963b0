-- Answers to creating requests that carried an Idempotency-Key. Each is committed together with what it answers, so a row
-- says that the request is done; there is no row for one that is being worked on. See docs/idempotency.md.

CREATE TABLE idempotent_answers (
  -- An Idempotency-Key belongs to the API key that sent it. No reference: checking one would lock the row of the API key after
  -- the head of a feed, and whoever rolls or deletes that key locks the two the other way round.
  key_id text NOT NULL,
  idempotency_key text COLLATE "C" NOT NULL,
  -- Of method, path and body: whoever uses the key again must ask for the same.
  fingerprint text NOT NULL,
  status integer NOT NULL CHECK (status BETWEEN 200 AND 499 AND status NOT IN (401, 403, 429)),
  -- JSON, without the secrets that are shown once and with the token of a passport sealed.
  body text NOT NULL,
  created_at_ms bigint NOT NULL,
  PRIMARY KEY (key_id, idempotency_key)
);
-- By which answers that nobody may ask for any more are found and removed.
CREATE INDEX idempotent_answers_by_age ON idempotent_answers (created_at_ms);
