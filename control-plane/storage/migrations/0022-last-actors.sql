-- Who made the last change of a gate, its catalog included, and who revoked a passport: the actor of the audit entry of that change, as answers
-- render it ({client_id, id, type}). Written with the change. Null: it was made by an earlier version of the service.
ALTER TABLE gates ADD COLUMN last_changed_by jsonb;
ALTER TABLE passports ADD COLUMN revoked_by jsonb;
