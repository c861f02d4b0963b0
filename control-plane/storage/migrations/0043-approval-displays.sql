-- What is asked, in words for the person who answers (contract §8): {"title", "lines": [{"label", "value"}], "url"}. Null: none, or forgotten.
ALTER TABLE approvals ADD COLUMN display jsonb;
-- Those to forget.
CREATE INDEX approvals_with_display ON approvals (expires_at_ms) WHERE display IS NOT NULL;
