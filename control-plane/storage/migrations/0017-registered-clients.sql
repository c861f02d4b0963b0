-- OAuth clients that registered themselves (RFC 7591), for those that know no metadata documents (see docs/tools.md). All of them are public.

CREATE TABLE oauth_clients (
  client_id text PRIMARY KEY,
  -- As the client calls itself; nobody has checked it.
  client_name text,
  redirect_uris text[] NOT NULL,
  created_at_ms bigint NOT NULL,
  -- Null: no person has let it in yet.
  used_at_ms bigint,
  -- From this moment on it is not found any more, whether or not its row is still there.
  expires_at_ms bigint NOT NULL
);
CREATE INDEX oauth_clients_by_expiry ON oauth_clients (expires_at_ms);
CREATE INDEX oauth_clients_unused ON oauth_clients (created_at_ms) WHERE used_at_ms IS NULL;
