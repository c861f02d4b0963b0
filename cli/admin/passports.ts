import type { Command } from 'commander';
import type { ReferenceIssue } from '../../clients/node/src/generated/api.ts';
import { trustTiers } from '../../shared/model/trust-tier.ts';
import { ApiCommands } from '../base/api-commands.ts';
import type { CommandHost } from '../base/host.ts';
import { lists } from '../base/lists.ts';
import { choice, given } from '../base/options.ts';

/** Adds `agent-trust passports`. */
export function addPassportCommands(program: Command, host: CommandHost): void {
  const passports = program
    .command('passports')
    .description('passports: who an agent is, and what it may ask for');
  const api = new ApiCommands(host);
  addReading(passports, api);
  addIssuing(passports, api);
  addEnding(passports, api);
}

interface Filter {
  readonly status?: 'active' | 'suspended' | 'revoked' | 'expired';
  readonly issuer?: string;
  readonly owner?: string;
  readonly user?: string;
  readonly trustTier?: 'L1' | 'L2' | 'L3';
}

function addReading(passports: Command, api: ApiCommands): void {
  api.list(
    lists(passports.command('list').description('passports, newest first'))
      .addOption(choice('--status <status>', 'only these', ['active', 'suspended', 'revoked', 'expired']))
      .option('--issuer <id>', 'of this issuer, iss_…')
      .option('--owner <text>', 'of this person or team')
      .option('--user <text>', 'issued here for this person')
      .addOption(choice('--trust-tier <tier>', 'only these', trustTiers)),
    {
      examples: [
        'agent-trust passports list --status active',
        'agent-trust passports list --all --json > passports.jsonl',
      ],
      filter: ({ status, issuer, owner, user, trustTier }: Filter) => ({
        ...{ status, owner, user, issuer_id: issuer, trust_tier: trustTier },
      }),
      page: ({ client }, query) => client.passports.list(query),
      columns: {
        passport: 'passport_id',
        agent: 'agent_id',
        tier: 'trust_tier',
        status: 'status',
        expires: 'expires_at',
        permissions: ({ permissions }) => permissions.join(' '),
      },
    },
  );
  const one = (name: 'get' | 'verify', description: string) =>
    api.show(passports.command(name).description(description).argument('<passport>', 'pass_…'), {
      examples: [`agent-trust passports ${name} pass_…`],
      of: ({ client, id }) => client.passports[name](id),
    });
  one('get', 'one passport, without the token');
  one('verify', 'whether a passport is valid now, and why not');
}

interface IssueOptions {
  readonly agent?: string;
  readonly permission?: readonly string[];
  readonly name?: string;
  readonly issuer?: string;
  readonly owner?: string;
  readonly user?: string;
  readonly trustTier?: string;
  readonly expiresIn?: string;
  readonly file?: string;
  readonly tokenFile?: string;
}

function addIssuing(passports: Command, api: ApiCommands): void {
  api.show<IssueOptions>(
    passports
      .command('issue')
      .description('issue a passport; its token, a credential, is shown this once')
      .option('--agent <id>', "the caller's own id of the agent")
      .option('--permission <keys...>', 'what it may do, such as orders:create')
      .option('--name <text>', 'name of the agent')
      .option('--issuer <id>', 'iss_…; default: the default issuer')
      .option('--owner <text>', 'the person or team that it belongs to')
      .option('--user <text>', 'the person for whom the agent acts')
      .addOption(choice('--trust-tier <tier>', 'default: that of the issuer', trustTiers))
      .option('--expires-in <time>', 'such as 90d or 12h')
      .option('--file <file>', 'YAML or JSON with the members of a body; - reads standard input')
      .option('--token-file <file>', 'a new file for the token, for its owner alone; it is not shown then'),
    {
      examples: [
        'agent-trust passports issue --agent buyer-7 --permission orders:create --token-file buyer-7.jwt',
        'agent-trust passports issue --file passport.yaml --json',
      ],
      of: async ({ client, options, readBody, keepSecret }) => {
        const { agent, permission, name, issuer, owner, user, trustTier, expiresIn } = options;
        const body = {
          ...(await readBody(options.file)),
          ...given({ agent_id: agent, permissions: permission, agent_name: name, issuer_id: issuer }),
          ...given({ trust_tier: trustTier, expires_in: expiresIn, owner, user }),
        } as unknown as ReferenceIssue;
        return keepSecret(options.tokenFile, 'jwt', () => client.passports.issue(body));
      },
    },
  );
}

function addEnding(passports: Command, api: ApiCommands): void {
  api.show<{ reason?: string }>(
    passports
      .command('revoke')
      .description('revoke a passport for good, at every sidecar')
      .argument('<passport>', 'pass_…')
      .option('--reason <text>', 'kept for the record'),
    {
      examples: ['agent-trust passports revoke pass_… --reason "key leaked" --yes'],
      asks: ({ id }) => `Revoke the passport ${id} for good?`,
      of: ({ client, id, options: { reason } }) => client.passports.revoke(id, given({ reason })),
    },
  );
  const ending = (name: string, of: 'passports' | 'owners', description: string): Command => {
    const command = passports.command(name).description(description);
    return of === 'passports'
      ? command.argument('<passport>', 'pass_…')
      : command.argument('<owner>', 'a person or team');
  };
  const suspend = (name: string, of: 'passports' | 'owners', description: string) =>
    api.show(ending(name, of, description), { of: ({ client, id }) => client[of].suspend(id) });
  const reactivate = (name: string, of: 'passports' | 'owners', description: string) =>
    api.show<{ issuer?: string }>(
      ending(name, of, description).option(
        '--issuer <id>',
        'iss_…: what this issuer has said, in place of your own suspension',
      ),
      { of: ({ client, id, options }) => client[of].reactivate(id, given({ issuer_id: options.issuer })) },
    );
  suspend('suspend', 'passports', 'stop a passport until it is reactivated');
  reactivate('reactivate', 'passports', 'end the suspension of a passport');
  suspend('suspend-owner', 'owners', 'stop all passports of a person or team, later ones too');
  reactivate('reactivate-owner', 'owners', 'end the suspension of an owner');
}
