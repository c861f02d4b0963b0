import { isDeepStrictEqual } from 'node:util';
import type { Constraints } from '../../shared/model/constraints.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import type { Transaction } from '../base/database.ts';
import type { BaseDeps } from '../base/deps.ts';
import { refuseImpossibleApprovers } from '../people/check-approvers.ts';

/**
 * Refuses a new rule about answers that the account cannot follow. One that stands already is let be: people
 * who left must not stop every other change of the gate.
 */
export async function refuseUnanswerable(
  tx: Transaction,
  { baseUrl, clock }: Pick<BaseDeps, 'baseUrl' | 'clock'>,
  wanted: {
    readonly accountId: AccountId;
    readonly after: Constraints;
    readonly before: Constraints | null;
  },
): Promise<void> {
  const ruleOf = ({ approvals }: Constraints) =>
    approvals === null ? null : { approvers: approvals.approvers, passkey: approvals.passkey };
  const rule = ruleOf(wanted.after);
  if (rule === null) return;
  if (wanted.before !== null && isDeepStrictEqual(rule, ruleOf(wanted.before))) return;
  const { accountId } = wanted;
  await refuseImpossibleApprovers(tx, { accountId, baseUrl, nowMs: clock.now() }, rule);
}
