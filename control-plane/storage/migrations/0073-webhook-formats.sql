-- What is sent to the endpoint. A replica of the version before sends all in the standard format meanwhile.
ALTER TABLE webhooks ADD COLUMN format text NOT NULL DEFAULT 'standard' CHECK (format IN ('standard', 'cloudevents'));
