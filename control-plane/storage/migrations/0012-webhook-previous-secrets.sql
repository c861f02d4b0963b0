-- An endpoint may be rolled again before an overlap has ended, and each secret signs on for as long as was promised for it: an array of
-- {"sealed", "endsAtMs"}, the one that was replaced first at the front.
ALTER TABLE webhooks ADD COLUMN previous_secrets jsonb NOT NULL DEFAULT '[]';
UPDATE webhooks
  SET previous_secrets = jsonb_build_array(jsonb_build_object('sealed', previous_sealed_secret, 'endsAtMs', previous_ends_at_ms))
  WHERE previous_sealed_secret IS NOT NULL;
ALTER TABLE webhooks DROP COLUMN previous_sealed_secret, DROP COLUMN previous_ends_at_ms;
