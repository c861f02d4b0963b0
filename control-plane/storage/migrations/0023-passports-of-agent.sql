-- All passports of an agent, those that have ended included: the filter `agent_id` of GET /attestations walks along the records of each.
CREATE INDEX passports_of_agent ON passports (account_id, mode, agent_id, passport_id);
