-- Policies that gates try beside their own (contract §4): the newest one of each gate, and how its newest promotion was predicted.
CREATE TABLE gate_shadows (
  gate_id text PRIMARY KEY REFERENCES gates,
  trust_level text NOT NULL,
  constraints jsonb NOT NULL,
  routes jsonb,
  policy_hash text NOT NULL REFERENCES policies,
  -- Of the live policy that it was made of. Under another one it is not in force, whoever changed that.
  base_policy_hash text NOT NULL,
  base_policy_version bigint NOT NULL,
  created_at_ms bigint NOT NULL,
  expires_at_ms bigint NOT NULL,
  -- Null: nothing has ended it before it expires.
  ended_at_ms bigint
);
