-- What the authorization server keeps between two requests: codes, tokens, grants, consents under way (see docs/tools.md).

CREATE TABLE oauth_artifacts (
  -- Of the library that makes them: AccessToken, RefreshToken, ClientCredentials, AuthorizationCode, Grant, Interaction, …
  model text NOT NULL,
  -- SHA-256 of its value: most of them open something for whoever shows them.
  id_hash text COLLATE "C" NOT NULL,
  -- JSON, sealed with MASTER_KEY: it repeats the value.
  sealed_payload text NOT NULL,
  -- SHA-256 of what it was made under and is counted under: the id of its grant, with which it ends; of the API key, for a grant and for a
  -- key's own token.
  parent_hash text COLLATE "C",
  -- SHA-256 of a second name by which it is looked up: the uid of a session, the user code of a device.
  alias_hash text COLLATE "C",
  -- What may be used once is kept after its use, so that a second one shows.
  consumed_at_ms bigint,
  -- Keys that were tried on the page of an Interaction.
  attempts integer NOT NULL DEFAULT 0,
  -- From this moment on it is not found any more, whether or not its row is still there.
  expires_at_ms bigint NOT NULL,
  PRIMARY KEY (id_hash, model)
);
CREATE INDEX oauth_artifacts_of_parent ON oauth_artifacts (parent_hash, model, expires_at_ms) WHERE parent_hash IS NOT NULL;
CREATE INDEX oauth_artifacts_by_alias ON oauth_artifacts (alias_hash) WHERE alias_hash IS NOT NULL;
CREATE INDEX oauth_artifacts_by_expiry ON oauth_artifacts (expires_at_ms);
