import { describeLogKills } from '../support/log-kills.ts';

describeLogKills(6);
