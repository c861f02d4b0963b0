-- Names of the owner's by which gates and webhooks are told apart (contract §4). Replicas of the version before write none.
ALTER TABLE gates ADD COLUMN labels jsonb NOT NULL DEFAULT '{}';
ALTER TABLE webhooks ADD COLUMN labels jsonb NOT NULL DEFAULT '{}';
