-- What decides at gates, kept for ever (contract §9): records name the policy by its hash. `body` is its RFC 8785 form, over which the hash is
-- made; the signature is over the hash.
CREATE TABLE policies (
  policy_hash text PRIMARY KEY,
  body text NOT NULL,
  signature text NOT NULL,
  signing_key_id text NOT NULL,
  first_used_at_ms bigint NOT NULL
);
-- The policy of each version of a gate. None: the version was published by a replica of the version before, and is kept in the background.
CREATE TABLE gate_policies (
  gate_id text NOT NULL REFERENCES gates,
  policy_version bigint NOT NULL,
  policy_hash text NOT NULL REFERENCES policies,
  since_ms bigint NOT NULL,
  PRIMARY KEY (gate_id, policy_version)
);
