-- How often logins were tried lately (docs/people.md), counted by all control planes together.
CREATE TABLE login_attempts (
  -- SHA-256 of what is counted: an address, a network, an account or a browser.
  key text COLLATE "C" PRIMARY KEY,
  attempts integer NOT NULL,
  -- The end of the window that its first attempt began.
  ends_at_ms bigint NOT NULL
);
CREATE INDEX login_attempts_by_end ON login_attempts (ends_at_ms);
