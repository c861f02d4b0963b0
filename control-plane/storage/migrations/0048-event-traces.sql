-- The W3C Trace Context of the request that caused the event, as it came; NULL: none. Its deliveries carry it.
ALTER TABLE webhook_events ADD COLUMN traceparent text;
