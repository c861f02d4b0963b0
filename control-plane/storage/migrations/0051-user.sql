-- For whom the agent of a passport acts (contract §3). Null: nobody, or its tokens say so, which others issue.
ALTER TABLE passports ADD COLUMN for_user text;
CREATE INDEX passports_for_user ON passports (account_id, mode, for_user, passport_id) WHERE for_user IS NOT NULL;
