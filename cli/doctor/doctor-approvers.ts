import type { AgentTrust } from '../../clients/node/src/agent-trust.ts';
import { ForbiddenError } from '../../clients/node/src/errors.ts';
import { messageOf } from '../../shared/errors/message-of.ts';
import { limits } from '../../shared/model/limits.ts';
import { type Finding, ok, unknown, warn } from './doctor-finding.ts';
import { shortList } from './doctor-wallets.ts';

/** Gates whose approvals nobody could answer, or where one person may be several. Of the newest 200. */
export async function checkApprovers(client: AgentTrust): Promise<Finding> {
  try {
    const { items, total } = await client.gates.list({ limit: limits.pageItemsMax });
    const gates = items.flatMap(({ name, approvers }) => (approvers === null ? [] : { name, ...approvers }));
    const stuck = gates.filter(({ able, count }) => able < count).map(({ name }) => name);
    const several = gates.filter(({ count, independent }) => count > 1 && !independent);
    const extent = `of the newest ${items.length} of ${total} gates`;
    if (stuck.length > 0)
      return warn(
        'approvers',
        `too few people could answer the approvals of ${shortList(stuck)} (${extent})`,
        'Invite and confirm people, or change approvals.approvers of the gates (docs/approvals.md).',
      );
    return several.length === 0
      ? ok('approvers', `somebody could answer every approval (${extent})`)
      : warn(
          'approvers',
          `one person who opened several invitations could answer for all at ${shortList(several.map(({ name }) => name))} (${extent})`,
          'Set approvals.approvers.independent of the gates to true (docs/approvals.md).',
        );
  } catch (error) {
    if (error instanceof ForbiddenError)
      return unknown('approvers', 'the key may not read gates', 'Use a key with gates:read.');
    return unknown('approvers', messageOf(error), 'See the lines above.');
  }
}
