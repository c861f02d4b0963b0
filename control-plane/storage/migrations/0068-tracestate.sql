-- The W3C tracestate beside traceparent: of the request that caused the event.
ALTER TABLE webhook_events ADD COLUMN tracestate text;
