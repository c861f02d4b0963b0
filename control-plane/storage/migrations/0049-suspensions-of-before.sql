-- Whose suspensions of before were, and since when, nobody noted.
INSERT INTO suspensions
SELECT account_id, mode, '', passport_id, 'account', (extract(epoch FROM now()) * 1000)::bigint, NULL
FROM (SELECT * FROM passports WHERE status = 'suspended' FOR NO KEY UPDATE) AS held ON CONFLICT DO NOTHING;
