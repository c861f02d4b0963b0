import { type Command, InvalidArgumentError } from 'commander';
import type { StandingApproval } from '../../clients/node/src/generated/api.ts';
import { choice } from '../base/choice.ts';
import { given } from '../base/given.ts';
import type { ApiOptions, CommandHost } from '../base/host.ts';
import { asksFirst, type ListOptions, lists, printList } from '../base/lists.ts';
import type { Column } from '../base/print.ts';
import { callsApi, withApi } from '../base/with-api.ts';

type Status = StandingApproval['status'];

/** Adds `agent-trust approvals standing`: requests that are approved ahead. */
export function addStandingApprovalCommands(approvals: Command, host: CommandHost): void {
  const standing = approvals
    .command('standing')
    .description('standing approvals: requests that are approved ahead');
  addReading(standing, host);
  addChanging(standing, host);
}

const columns: readonly Column<StandingApproval>[] = [
  { title: 'standing approval', of: ({ standing_approval_id }) => standing_approval_id },
  { title: 'status', of: ({ status }) => status },
  { title: 'for', of: ({ agent_id, owner }) => agent_id ?? `owner ${owner}` },
  { title: 'permission', of: ({ permission_key }) => permission_key },
  { title: 'usd each', of: ({ each_usd }) => each_usd },
  { title: 'usd in all', of: ({ total_usd }) => total_usd },
  { title: 'usd left', of: ({ left_usd }) => left_usd },
  { title: 'gate', of: ({ gate_id }) => gate_id },
  { title: 'expires', of: ({ expires_at }) => expires_at },
];

function addReading(standing: Command, host: CommandHost): void {
  callsApi(
    lists(standing.command('list').description('standing approvals, newest first'))
      .addOption(
        choice('--status <status>', 'only these', ['active', 'expired', 'revoked', 'policy_changed']),
      )
      .option('--gate <gate>', 'only at this gate, gate_…')
      .option('--passport <passport>', 'only for this passport, pass_…')
      .option('--owner <owner>', 'only for the passports of this owner'),
    host,
    ['agent-trust approvals standing list --status active'],
  ).action((options: ListOptions & { status?: Status; gate?: string; passport?: string; owner?: string }) =>
    withApi(host, options, async (work) => {
      const { status, gate, passport, owner } = options;
      const filter = given({ status, gate_id: gate, passport_id: passport, owner });
      await printList(work, options, {
        fetch: (query) => work.client.standingApprovals.list({ ...query, ...filter }),
        itemsOf: ({ items }) => items,
        columns,
      });
      return undefined;
    }),
  );
  callsApi(
    standing.command('get').description('one standing approval').argument('<id>', 'sappr_…'),
    host,
  ).action((id: string, options: ApiOptions) =>
    withApi(host, options, async ({ client, print }) => {
      print.item(await client.standingApprovals.get(id));
      return undefined;
    }),
  );
}

interface CreateOptions extends ApiOptions {
  readonly gate: string;
  readonly passport?: string;
  readonly owner?: string;
  readonly permission: string;
  readonly each: number;
  readonly total: number;
  readonly expiresAt: string;
  readonly note?: string;
}

function addChanging(standing: Command, host: CommandHost): void {
  callsApi(
    standing
      .command('create')
      .description('permit what fits without asking, until the total is spent')
      .requiredOption('--gate <gate>', 'gate_…')
      .option('--passport <passport>', 'pass_…')
      .option('--owner <owner>', 'a person or team, in place of --passport: for all its passports')
      .requiredOption('--permission <key>', 'such as orders:create')
      .requiredOption('--each <usd>', 'the most that one request may spend', dollars)
      .requiredOption('--total <usd>', 'the most that all of them may spend together', dollars)
      .requiredOption('--expires-at <time>', 'such as 2027-01-31T00:00:00Z; at most 90 days away')
      .option('--note <text>', 'why, for the record'),
    host,
    [
      'agent-trust approvals standing create --gate gate_… --passport pass_… --permission orders:create ' +
        '--each 300 --total 2000 --expires-at 2027-01-31T00:00:00Z',
    ],
  ).action((options: CreateOptions) =>
    withApi(host, options, async ({ client, print }) => {
      const body = {
        gate_id: options.gate,
        permission_key: options.permission,
        each_usd: options.each,
        total_usd: options.total,
        expires_at: options.expiresAt,
        ...given({ passport_id: options.passport, owner: options.owner, note: options.note }),
      };
      print.item(await client.standingApprovals.create(body));
      return undefined;
    }),
  );
  callsApi(
    asksFirst(
      standing.command('end').description('end a standing approval at once').argument('<id>', 'sappr_…'),
    ),
    host,
    ['agent-trust approvals standing end sappr_… --yes'],
  ).action((id: string, options: ApiOptions & { yes?: boolean }) =>
    withApi(host, options, async (work) => {
      const { agreed } = await import('../base/agree.ts');
      const question = `End the standing approval ${id}? Requests wait for a person again at once.`;
      if (!(await agreed(work, options, question))) return 1;
      work.print.item(await work.client.standingApprovals.end(id));
      return undefined;
    }),
  );
}

function dollars(text: string): number {
  if (/^\d{1,10}(\.\d{1,6})?$/.test(text) && Number(text) > 0) return Number(text);
  throw new InvalidArgumentError('It is an amount in USD above 0, such as 300 or 0.25.');
}
