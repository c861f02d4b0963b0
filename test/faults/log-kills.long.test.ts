import { describeLogKills } from '../support/log-kills.ts';

// As many as the contract's promise was tried with: no checkpoint goes back.
describeLogKills(1_000);
