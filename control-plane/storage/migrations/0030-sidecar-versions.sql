-- Which version of the program a sidecar is. Null: of one that did not say so.
ALTER TABLE sidecars ADD COLUMN version text;
