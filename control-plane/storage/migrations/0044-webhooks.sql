-- Names of the owner's by which webhooks are told apart (contract §4). Replicas of the version before write none, and send all in the standard
-- format.
ALTER TABLE webhooks ADD COLUMN labels jsonb NOT NULL DEFAULT '{}',
  ADD COLUMN format text NOT NULL DEFAULT 'standard' CHECK (format IN ('standard', 'cloudevents'));
-- The W3C Trace Context of the request that caused the event, as it came; NULL: none. Its deliveries carry it.
ALTER TABLE webhook_events ADD COLUMN traceparent text, ADD COLUMN tracestate text;
-- Sent because its owner tests the endpoint: says nothing of its health. Replicas of the version before count it.
ALTER TABLE webhook_deliveries ADD COLUMN is_test boolean NOT NULL DEFAULT false;
