-- What the shadow of the gate said to the request (contract §4), for the record of the SUSPEND; null: there was none.
ALTER TABLE approvals ADD COLUMN shadow json;
