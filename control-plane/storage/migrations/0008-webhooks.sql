-- Webhooks: endpoints, the outbox of events, and each event's way to each endpoint (see docs/webhooks.md).

CREATE TABLE webhooks (
  webhook_id text COLLATE "C" PRIMARY KEY,
  account_id text NOT NULL REFERENCES accounts,
  mode text NOT NULL CHECK (mode IN ('live', 'test')),
  -- NULL: nothing is sent, deliveries wait to be fetched.
  url text,
  events text[] NOT NULL,
  description text,
  status text NOT NULL CHECK (status IN ('enabled', 'disabled')),
  disabled_reason text CHECK (disabled_reason IN ('owner', 'gone', 'failing', 'unread')),
  -- Sealed with MASTER_KEY, as are those before it. Each of those signs on for as long as was promised for it: an array of {"sealed", "endsAtMs"},
  -- the one that was replaced first at the front.
  sealed_secret text NOT NULL,
  previous_secrets jsonb NOT NULL DEFAULT '[]',
  -- Goes up whenever an endpoint begins anew: another URL, enabled or disabled, its account no longer suspended. What an attempt of an earlier era
  -- came to, however late that is written down, says nothing about the endpoint of now.
  era integer NOT NULL DEFAULT 0,
  -- The first failure after the last success.
  failing_since_ms bigint,
  -- The endpoint has asked for no more until then (Retry-After).
  paused_until_ms bigint,
  -- When somebody last fetched from an endpoint without a URL.
  fetched_at_ms bigint NOT NULL,
  created_at_ms bigint NOT NULL,
  updated_at_ms bigint NOT NULL,
  CHECK ((status = 'enabled') = (disabled_reason IS NULL))
);
CREATE INDEX webhooks_of_account ON webhooks (account_id, mode, webhook_id);
-- Asked by every transaction that may cause an event: nobody subscribes in most accounts, and then this is all that an event costs.
CREATE INDEX webhooks_subscribed ON webhooks (account_id, mode) WHERE status = 'enabled';
CREATE INDEX webhooks_without_url ON webhooks (fetched_at_ms) WHERE url IS NULL AND status = 'enabled';

-- The outbox. An event is stored once, in the transaction that caused it, however many endpoints it goes to.
CREATE TABLE webhook_events (
  -- Time-sortable; what is old is found and removed by it, here and below.
  event_id text COLLATE "C" PRIMARY KEY,
  event text NOT NULL,
  -- What is sent, byte for byte: as jsonb it would come out in another order and spelling than the one that is signed.
  body text NOT NULL
);

-- One row for each event and endpoint, so that every endpoint has a queue of its own and none waits for another.
-- No references: checking one would lock the row of the endpoint for every delivery, and what is old goes in one sweep anyway.
CREATE TABLE webhook_deliveries (
  delivery_id text COLLATE "C" PRIMARY KEY,
  webhook_id text COLLATE "C" NOT NULL,
  event_id text COLLATE "C" NOT NULL,
  status text NOT NULL CHECK (status IN ('pending', 'succeeded', 'failed')),
  -- In all, and since it was last put into the queue: sending again starts the schedule anew.
  attempts integer NOT NULL CHECK (attempts >= 0),
  tries integer NOT NULL CHECK (tries BETWEEN 0 AND attempts),
  -- While an attempt is under way: when its lease ends. Whoever died in the middle of it is then relieved by anybody.
  next_attempt_at_ms bigint,
  -- The replica that holds the lease.
  claimed_by text,
  created_at_ms bigint NOT NULL,
  CHECK (status = 'pending' OR next_attempt_at_ms IS NULL),
  CHECK (claimed_by IS NULL OR next_attempt_at_ms IS NOT NULL)
);
-- The queues: claiming walks from endpoint to endpoint and takes what is due at each, whatever waits elsewhere.
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (webhook_id, next_attempt_at_ms)
  WHERE next_attempt_at_ms IS NOT NULL;
CREATE INDEX webhook_deliveries_of_webhook ON webhook_deliveries (webhook_id, delivery_id);
-- What `recover` sends again. A delivery that succeeds at its first attempt is never in here.
CREATE INDEX webhook_deliveries_unlucky ON webhook_deliveries (webhook_id, delivery_id)
  WHERE status <> 'succeeded' AND attempts > 0;

CREATE TABLE webhook_attempts (
  delivery_id text COLLATE "C" NOT NULL,
  attempt integer NOT NULL CHECK (attempt > 0),
  started_at_ms bigint NOT NULL,
  latency_ms bigint NOT NULL CHECK (latency_ms >= 0),
  status_code integer,
  error text,
  -- The first KiB of the answer, redacted.
  response text,
  PRIMARY KEY (delivery_id, attempt),
  CHECK ((status_code IS NULL) = (error IS NOT NULL))
);
