-- People of an account, the links that invite them, and their browser sessions (docs/people.md).

CREATE TABLE users (
  user_id text PRIMARY KEY,
  account_id text COLLATE "C" NOT NULL REFERENCES accounts,
  -- In lower case.
  email text COLLATE "C" NOT NULL,
  name text NOT NULL,
  role text NOT NULL CHECK (role IN ('owner', 'admin', 'approver', 'auditor', 'read_only')),
  is_disabled boolean NOT NULL DEFAULT false,
  -- Parameters, salt and hash as one text. Null: no password was chosen yet.
  password_hash text,
  -- Null: the invitation was not accepted yet.
  accepted_at_ms bigint,
  -- The secret of the one-time codes, sealed with MASTER_KEY; null: there is none.
  totp_sealed text,
  -- Null: no code has shown yet that the secret arrived, and none is asked for.
  totp_confirmed_at_ms bigint,
  -- The number of the last time step of which a code was taken: none is taken twice.
  totp_last_step bigint,
  -- SHA-256 of those that are left.
  recovery_code_hashes text[] NOT NULL DEFAULT '{}',
  created_at_ms bigint NOT NULL,
  last_login_at_ms bigint,
  UNIQUE (account_id, email)
);
-- A login names an address, and no account.
CREATE INDEX users_by_email ON users (email, user_id);

CREATE TABLE invitations (
  -- SHA-256 of what the link carries.
  token_hash text COLLATE "C" PRIMARY KEY,
  account_id text COLLATE "C" NOT NULL REFERENCES accounts,
  -- Null: the link of the first owner, who is nobody yet.
  user_id text UNIQUE REFERENCES users ON DELETE CASCADE,
  created_at_ms bigint NOT NULL,
  expires_at_ms bigint NOT NULL
);

CREATE TABLE sessions (
  session_id text PRIMARY KEY,
  -- SHA-256 of the cookie.
  token_hash text COLLATE "C" NOT NULL UNIQUE,
  user_id text NOT NULL REFERENCES users ON DELETE CASCADE,
  -- As the browser called itself at the login.
  user_agent text,
  created_at_ms bigint NOT NULL,
  -- Written now and then; the idle end is counted from here.
  last_seen_at_ms bigint NOT NULL,
  -- The absolute end. The row may stay a while longer.
  expires_at_ms bigint NOT NULL
);
CREATE INDEX sessions_of_user ON sessions (user_id, session_id);
CREATE INDEX sessions_by_expiry ON sessions (expires_at_ms);
