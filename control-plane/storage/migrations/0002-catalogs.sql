-- Permission catalogs: immutable, signed versions of what a gate offers and at what price; the entries by which gates are
-- discovered; and templates.

CREATE TABLE templates (
  template_id text PRIMARY KEY,
  account_id text NOT NULL REFERENCES accounts,
  mode text NOT NULL CHECK (mode IN ('live', 'test')),
  name text NOT NULL,
  description text,
  -- Null: whoever makes a gate of it says which.
  trust_level text CHECK (trust_level IN ('L1', 'L2', 'L3')),
  -- In the public wire shape, normalised.
  constraints jsonb NOT NULL,
  created_at_ms bigint NOT NULL
);
CREATE INDEX templates_of_account ON templates (account_id, mode, template_id);

-- What decisions need of the newest catalog: each permission with its price per call in micro-USD, or null.
-- Null: no catalog is published. Beside the gate, because every check and every change of the gate needs it.
ALTER TABLE gates ADD COLUMN catalog_prices jsonb;

-- Never updated and never deleted: what was signed once can be looked up for ever. Versions of a gate have no holes.
CREATE TABLE catalogs (
  gate_id text NOT NULL REFERENCES gates,
  version bigint NOT NULL CHECK (version > 0),
  published_at_ms bigint NOT NULL,
  content_hash text NOT NULL,
  signature text NOT NULL,
  signing_key_id text NOT NULL,
  PRIMARY KEY (gate_id, version)
);
CREATE TABLE catalog_entries (
  gate_id text NOT NULL,
  version bigint NOT NULL,
  -- From 0, without holes.
  position bigint NOT NULL,
  -- In the public wire shape, normalised: exactly what is hashed and signed.
  entry jsonb NOT NULL,
  PRIMARY KEY (gate_id, version, position),
  FOREIGN KEY (gate_id, version) REFERENCES catalogs
);

-- The entries of the newest catalog of every live gate as they are searched; what they say stands in catalog_entries. Written, together
-- with discovery_counts, in the transactions that publish a catalog, change a gate's level or delete a gate.
CREATE TABLE discovery_entries (
  gate_id text COLLATE "C" NOT NULL,
  permission_key text COLLATE "C" NOT NULL,
  version bigint NOT NULL,
  position bigint NOT NULL,
  area text COLLATE "C" NOT NULL GENERATED ALWAYS AS (split_part(permission_key, ':', 1)) STORED,
  -- Null also where it has the name of the area, by which the entry is found already.
  category text COLLATE "C",
  -- The gate's level: 'L1' < 'L2' < 'L3'.
  trust_level text COLLATE "C" NOT NULL CHECK (trust_level IN ('L1', 'L2', 'L3')),
  pricing_model text COLLATE "C",
  price_cents bigint,
  currency text COLLATE "C",
  uptime_basis_points integer,
  response_time_ms integer,
  PRIMARY KEY (gate_id, permission_key),
  CHECK (num_nulls(pricing_model, price_cents, currency) IN (0, 3)),
  CHECK (num_nulls(uptime_basis_points, response_time_ms) IN (0, 2))
)
-- Counting reads the indexes alone as long as the visibility map is fresh: vacuum after 2 % of changes, not 20 %.
WITH (autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_vacuum_scale_factor = 0.02);

-- Three things that a capability can match, each in three orders. A page is read off in its order, and stops when it is full; a filter on
-- the ordering figure narrows what is read at all; every filter stands in the index, so that counting never touches the table.
-- Backwards, the order by price also serves price_desc.
CREATE INDEX discovery_permission_price ON discovery_entries (permission_key, price_cents, gate_id)
  INCLUDE (trust_level, pricing_model, currency, uptime_basis_points, response_time_ms);
CREATE INDEX discovery_permission_uptime ON discovery_entries (permission_key, uptime_basis_points DESC NULLS LAST, gate_id)
  INCLUDE (trust_level, pricing_model, currency, price_cents, response_time_ms);
CREATE INDEX discovery_permission_response ON discovery_entries (permission_key, response_time_ms, gate_id)
  INCLUDE (trust_level, pricing_model, currency, price_cents, uptime_basis_points);
CREATE INDEX discovery_area_price ON discovery_entries (area, price_cents, gate_id, permission_key)
  INCLUDE (trust_level, pricing_model, currency, uptime_basis_points, response_time_ms);
CREATE INDEX discovery_area_uptime ON discovery_entries (area, uptime_basis_points DESC NULLS LAST, gate_id, permission_key)
  INCLUDE (trust_level, pricing_model, currency, price_cents, response_time_ms);
CREATE INDEX discovery_area_response ON discovery_entries (area, response_time_ms, gate_id, permission_key)
  INCLUDE (trust_level, pricing_model, currency, price_cents, uptime_basis_points);
CREATE INDEX discovery_category_price ON discovery_entries (category, price_cents, gate_id, permission_key)
  INCLUDE (trust_level, pricing_model, currency, uptime_basis_points, response_time_ms) WHERE category IS NOT NULL;
CREATE INDEX discovery_category_uptime ON discovery_entries (category, uptime_basis_points DESC NULLS LAST, gate_id, permission_key)
  INCLUDE (trust_level, pricing_model, currency, price_cents, response_time_ms) WHERE category IS NOT NULL;
CREATE INDEX discovery_category_response ON discovery_entries (category, response_time_ms, gate_id, permission_key)
  INCLUDE (trust_level, pricing_model, currency, price_cents, uptime_basis_points) WHERE category IS NOT NULL;

-- How many entries a capability matches, by what the filters without a range ask for: the total of such a query is a sum of a few dozen
-- rows, where counting a category of 100,000 entries takes longer than all the rest. A term is a permission key, an area or a category.
CREATE TABLE discovery_counts (
  term text COLLATE "C" NOT NULL,
  -- Empty: not priced.
  currency text COLLATE "C" NOT NULL,
  pricing_model text COLLATE "C" NOT NULL,
  trust_level text COLLATE "C" NOT NULL,
  entries bigint NOT NULL,
  PRIMARY KEY (term, currency, pricing_model, trust_level)
)
-- The same few rows are updated all the time: room beside them keeps their index out of it.
WITH (fillfactor = 70);
