-- Goes up whenever an endpoint begins anew: another URL, enabled or disabled, its account no longer suspended. What an attempt of an earlier era came
-- to, however late that is written down, says nothing about the endpoint of now.
ALTER TABLE webhooks ADD COLUMN era integer NOT NULL DEFAULT 0;
