-- Which permission a request needs at the per-gate address (contract §15), in the public shape. Null: the gate has no routes.
ALTER TABLE gates ADD COLUMN routes jsonb;
