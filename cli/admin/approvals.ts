import type { Command } from 'commander';
import type { Approval } from '../../clients/node/src/generated/api.ts';
import { ApiCommands } from '../base/api-commands.ts';
import type { CommandHost } from '../base/host.ts';
import { lists } from '../base/lists.ts';
import { choice, given } from '../base/options.ts';
import { approvalColumns } from './approval-columns.ts';
import { addStandingApprovalCommands } from './standing-approvals.ts';

/** Adds `agent-trust approvals`: requests that wait for a person. */
export function addApprovalCommands(program: Command, host: CommandHost): void {
  const approvals = program.command('approvals').description('approvals: requests that wait for a person');
  const api = new ApiCommands(host);
  api.list(
    lists(approvals.command('list').description('approvals, newest first'))
      .addOption(
        choice('--status <status>', 'only these', ['pending', 'approved', 'denied', 'expired', 'used']),
      )
      .option('--user <text>', 'for this person'),
    {
      examples: ['agent-trust approvals list --status pending'],
      filter: ({ status, user }: { status?: Approval['status']; user?: string }) => ({ status, user }),
      page: ({ client }, query) => client.approvals.list(query),
      columns: approvalColumns,
    },
  );
  api.show(approvals.command('get').description('one approval').argument('<approval>', 'appr_…'), {
    of: ({ client, id }) => client.approvals.get(id),
  });
  const resolve = (name: 'approve' | 'deny', description: string) =>
    api.show<{ note?: string }>(
      approvals
        .command(name)
        .description(description)
        .argument('<approval>', 'appr_…')
        .option('--note <text>', 'why, for the record'),
      {
        examples: [`agent-trust approvals ${name} appr_… --note "known supplier"`],
        of: ({ client, id, options: { note } }) => client.approvals[name](id, given({ note })),
      },
    );
  resolve('approve', 'let the request pass, once');
  resolve('deny', 'refuse the request');
  api.run(
    approvals
      .command('watch')
      .description('pending approvals as they come, until Ctrl-C; on a terminal it asks about each'),
    {
      examples: [
        'agent-trust approvals watch',
        'agent-trust approvals watch --json | while read -r approval; do …; done',
      ],
      work: async (call) => {
        const { watchApprovals } = await import('./watch-approvals.ts');
        return watchApprovals(call, host.stopSignal());
      },
    },
  );
  addStandingApprovalCommands(approvals, api);
}
