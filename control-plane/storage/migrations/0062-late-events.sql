-- A security event that arrives late must not lift a suspension of a later one (contract §4).
ALTER TABLE security_events ADD COLUMN issued_at_ms bigint, ADD COLUMN suspended text[] COLLATE "C";
CREATE INDEX security_events_suspended ON security_events USING gin (suspended);
