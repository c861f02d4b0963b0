import type { Command } from 'commander';
import { choice } from '../base/choice.ts';
import { given } from '../base/given.ts';
import type { ApiOptions, CommandHost } from '../base/host.ts';
import { type ListOptions, lists, printList } from '../base/lists.ts';
import { callsApi, withApi } from '../base/with-api.ts';
import { approvalColumns } from './approval-columns.ts';
import { addStandingApprovalCommands } from './standing-approvals.ts';

type Status = 'pending' | 'approved' | 'denied' | 'expired' | 'used';

/** Adds `agent-trust approvals`: requests that wait for a person. */
export function addApprovalCommands(program: Command, host: CommandHost): void {
  const approvals = program.command('approvals').description('approvals: requests that wait for a person');
  addReading(approvals, host);
  addResolving(approvals, host);
  addStandingApprovalCommands(approvals, host);
}

function addReading(approvals: Command, host: CommandHost): void {
  callsApi(
    lists(approvals.command('list').description('approvals, newest first')).addOption(
      choice('--status <status>', 'only these', ['pending', 'approved', 'denied', 'expired', 'used']),
    ),
    host,
    ['agent-trust approvals list --status pending'],
  ).action((options: ListOptions & { status?: Status }) =>
    withApi(host, options, async (work) => {
      const filter = given({ status: options.status });
      await printList(work, options, {
        fetch: (query) => work.client.approvals.list({ ...query, ...filter }),
        itemsOf: ({ items }) => items,
        columns: approvalColumns,
      });
      return undefined;
    }),
  );
  callsApi(
    approvals.command('get').description('one approval').argument('<approval>', 'appr_…'),
    host,
  ).action((id: string, options: ApiOptions) =>
    withApi(host, options, async ({ client, print }) => {
      print.item(await client.approvals.get(id));
      return undefined;
    }),
  );
}

function addResolving(approvals: Command, host: CommandHost): void {
  const resolve = (name: 'approve' | 'deny', description: string) =>
    callsApi(
      approvals
        .command(name)
        .description(description)
        .argument('<approval>', 'appr_…')
        .option('--note <text>', 'why, for the record'),
      host,
      [`agent-trust approvals ${name} appr_… --note "known supplier"`],
    ).action((id: string, options: ApiOptions & { note?: string }) =>
      withApi(host, options, async ({ client, print }) => {
        print.item(await client.approvals[name](id, given({ note: options.note })));
        return undefined;
      }),
    );
  resolve('approve', 'let the request pass, once');
  resolve('deny', 'refuse the request');
  callsApi(
    approvals
      .command('watch')
      .description('pending approvals as they come, until Ctrl-C; on a terminal it asks about each'),
    host,
    [
      'agent-trust approvals watch',
      'agent-trust approvals watch --json | while read -r approval; do …; done',
    ],
  ).action((options: ApiOptions) =>
    withApi(host, options, async (work) => {
      const { watchApprovals } = await import('./watch-approvals.ts');
      return watchApprovals(work, host.stopSignal());
    }),
  );
}
