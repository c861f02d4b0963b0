-- What a publisher says in a catalog besides its permissions: kept as it came, and signed with it (decisions §10).
ALTER TABLE catalogs ADD COLUMN more jsonb NOT NULL DEFAULT '{}';
