import { describeLogKills } from '../support/log-kills.ts';
import { isLong } from '../support/runs.ts';

// As many as the contract's promise was tried with: no checkpoint goes back. An hour.
describeLogKills(isLong ? 1_000 : 0);
