import { runs } from '../support/base/runs.ts';
import { describeLogKills, loggedTables } from '../support/programs/log-kills.ts';

// In full as many as the contract's promise was tried with: no checkpoint goes back. An hour.
describeLogKills({ tables: loggedTables, killsAtAnyMoment: runs({ short: 6, long: 1_000 }) });
