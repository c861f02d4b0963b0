-- Whose sidecar or call wrote a record, and which attestation or approval it resolves or voids. A record without source_account is of a
-- build before these columns: its hash covers neither, so it is shown and exported without them.
ALTER TABLE attestations ADD COLUMN refers_to text, ADD COLUMN source_account text,
  ADD CHECK (refers_to IS NULL OR (source_account IS NOT NULL AND resolution IS NOT NULL));
