-- A rolled key ends with its overlap, at `expires_at_ms`. When it would have ended otherwise stays here for its replacement: whoever lost the
-- answer and rolls it once more needs a key that outlives the overlap.
ALTER TABLE api_keys ADD COLUMN is_rolled boolean NOT NULL DEFAULT false;
-- Means something for rolled keys only; null: it would never have ended.
ALTER TABLE api_keys ADD COLUMN own_expires_at_ms bigint;
