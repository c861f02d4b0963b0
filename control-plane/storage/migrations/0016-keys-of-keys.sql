-- A key that was made through an access token ends with the key that the token is based on (decisions §2).
ALTER TABLE api_keys ADD COLUMN ends_with_key_id text REFERENCES api_keys;
CREATE INDEX api_keys_ending_with ON api_keys (ends_with_key_id) WHERE ends_with_key_id IS NOT NULL AND revoked_at_ms IS NULL;
