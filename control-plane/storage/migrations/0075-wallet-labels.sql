-- Names of the owner's by which wallets are told apart (contract §6). Replicas of the version before write none.
ALTER TABLE wallets ADD COLUMN labels jsonb NOT NULL DEFAULT '{}';
