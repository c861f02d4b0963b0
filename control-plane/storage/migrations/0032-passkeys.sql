-- Passkeys of users (docs/people.md): the public halves of WebAuthn credentials.
CREATE TABLE passkeys (
  passkey_id text PRIMARY KEY,
  user_id text NOT NULL REFERENCES users ON DELETE CASCADE,
  -- As authenticators and browsers name it, base64url. Nobody registers that of somebody else.
  credential_id text COLLATE "C" NOT NULL UNIQUE,
  -- COSE (RFC 9052).
  public_key bytea NOT NULL,
  -- How often the authenticator says that it was used; 0: it does not count.
  counter bigint NOT NULL,
  transports text[] NOT NULL,
  name text NOT NULL,
  created_at_ms bigint NOT NULL,
  last_used_at_ms bigint
);
CREATE INDEX passkeys_of_user ON passkeys (user_id, passkey_id);
