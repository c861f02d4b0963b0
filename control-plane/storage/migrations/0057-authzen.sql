-- The words of an account's policy enforcement points for its gates and permissions.
CREATE TABLE authzen_vocabularies (
  account_id text NOT NULL REFERENCES accounts,
  mode text NOT NULL CHECK (mode IN ('live', 'test')),
  vocabulary jsonb NOT NULL,
  PRIMARY KEY (account_id, mode)
);

-- Whether the request named its passport without the token: the record of its end says so.
ALTER TABLE approvals ADD COLUMN asserted boolean NOT NULL DEFAULT false;
