import { type Command, InvalidArgumentError } from 'commander';
import type { StandingApproval } from '../../clients/node/src/generated/api.ts';
import type { ApiCommands } from '../base/api-commands.ts';
import { lists } from '../base/lists.ts';
import { choice, given } from '../base/options.ts';

interface Filter {
  readonly status?: StandingApproval['status'];
  readonly gate?: string;
  readonly passport?: string;
  readonly owner?: string;
}

interface Creation {
  readonly gate: string;
  readonly passport?: string;
  readonly owner?: string;
  readonly permission: string;
  readonly each: number;
  readonly total: number;
  readonly expiresAt: string;
  readonly note?: string;
}

/** Adds `agent-trust approvals standing`: requests that are approved ahead. */
export function addStandingApprovalCommands(approvals: Command, api: ApiCommands): void {
  const standing = approvals
    .command('standing')
    .description('standing approvals: requests that are approved ahead');
  api.list(
    lists(standing.command('list').description('standing approvals, newest first'))
      .addOption(
        choice('--status <status>', 'only these', ['active', 'expired', 'revoked', 'policy_changed']),
      )
      .option('--gate <gate>', 'only at this gate, gate_…')
      .option('--passport <passport>', 'only for this passport, pass_…')
      .option('--owner <owner>', 'only for the passports of this owner'),
    {
      examples: ['agent-trust approvals standing list --status active'],
      filter: ({ status, gate, passport, owner }: Filter) => ({
        ...{ status, gate_id: gate, passport_id: passport, owner },
      }),
      page: ({ client }, query) => client.standingApprovals.list(query),
      columns: {
        'standing approval': 'standing_approval_id',
        status: 'status',
        for: ({ agent_id, owner }) => agent_id ?? `owner ${owner}`,
        permission: 'permission_key',
        'usd each': 'each_usd',
        'usd in all': 'total_usd',
        'usd left': 'left_usd',
        gate: 'gate_id',
        expires: 'expires_at',
      },
    },
  );
  api.show(standing.command('get').description('one standing approval').argument('<id>', 'sappr_…'), {
    of: ({ client, id }) => client.standingApprovals.get(id),
  });
  addCreation(standing, api);
  api.show(
    standing.command('end').description('end a standing approval at once').argument('<id>', 'sappr_…'),
    {
      examples: ['agent-trust approvals standing end sappr_… --yes'],
      asks: ({ id }) => `End the standing approval ${id}? Requests wait for a person again at once.`,
      of: ({ client, id }) => client.standingApprovals.end(id),
    },
  );
}

function addCreation(standing: Command, api: ApiCommands): void {
  api.show<Creation>(
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
    {
      examples: [
        'agent-trust approvals standing create --gate gate_… --passport pass_… --permission orders:create ' +
          '--each 300 --total 2000 --expires-at 2027-01-31T00:00:00Z',
      ],
      of: ({ client, options }) =>
        client.standingApprovals.create({
          gate_id: options.gate,
          permission_key: options.permission,
          each_usd: options.each,
          total_usd: options.total,
          expires_at: options.expiresAt,
          ...given({ passport_id: options.passport, owner: options.owner, note: options.note }),
        }),
    },
  );
}

function dollars(text: string): number {
  if (/^\d{1,10}(\.\d{1,6})?$/.test(text) && Number(text) > 0) return Number(text);
  throw new InvalidArgumentError('It is an amount in USD above 0, such as 300 or 0.25.');
}
