-- Sidecars and their epochs go when they are old: a record that comes twice is found by its id, whatever was forgotten here.
ALTER TABLE sidecar_epochs ADD COLUMN place bigint GENERATED ALWAYS AS IDENTITY;
ALTER TABLE sidecar_epochs DROP CONSTRAINT sidecar_epochs_sidecar_id_fkey,
  ADD FOREIGN KEY (sidecar_id) REFERENCES sidecars ON DELETE CASCADE;
