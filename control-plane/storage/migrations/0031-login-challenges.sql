-- Logins in several steps (docs/people.md). What they remember between the steps is sealed in a cookie; a row here says that one was used, until it
-- would have expired anyway.
CREATE TABLE used_login_challenges (
  -- SHA-256 of the random part.
  challenge_hash text COLLATE "C" PRIMARY KEY,
  expires_at_ms bigint NOT NULL
);
CREATE INDEX used_login_challenges_by_expiry ON used_login_challenges (expires_at_ms);

-- Who a user is at the OpenID Connect provider: their address there may change, this does not.
CREATE TABLE oidc_identities (
  user_id text PRIMARY KEY REFERENCES users ON DELETE CASCADE,
  issuer text NOT NULL,
  subject text NOT NULL,
  linked_at_ms bigint NOT NULL
);
CREATE INDEX oidc_identities_by_subject ON oidc_identities (subject, issuer);
