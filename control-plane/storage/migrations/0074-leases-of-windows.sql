-- What of a window is lent, and to whom, for requests that find it dry and for the usage of wallets.
CREATE INDEX quota_leases_of_window ON quota_leases (counter, window_name, starts_at_ms);

-- Units that requests hold while they wait for a person, by whose passports they are.
CREATE INDEX approvals_holding ON approvals (passport_account_id, passport_mode) WHERE due_at_ms IS NOT NULL AND holds <> '[]';
