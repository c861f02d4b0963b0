-- An export has its chains in the order of the bytes of their ids (docs/verify.md), and the collation of the database may be another one.
-- Takes the place of chains_of_account, which a later version removes: control planes of the version before still read it.
CREATE INDEX chains_of_account_by_bytes ON chains (account_id, mode, chain_id COLLATE "C");
