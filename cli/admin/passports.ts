import type { Command } from 'commander';
import type { ReferenceIssue } from '../../clients/node/src/generated/api.ts';
import { trustTiers } from '../../shared/model/trust-tier.ts';
import { choice } from '../base/choice.ts';
import { given } from '../base/given.ts';
import type { ApiOptions, CommandHost } from '../base/host.ts';
import { asksFirst, type ListOptions, lists, printList } from '../base/lists.ts';
import { callsApi, withApi } from '../base/with-api.ts';

/** Adds `agent-trust passports`. */
export function addPassportCommands(program: Command, host: CommandHost): void {
  const passports = program
    .command('passports')
    .description('passports: who an agent is, and what it may ask for');
  addReading(passports, host);
  addIssuing(passports, host);
  addEnding(passports, host);
}

interface PassportListOptions extends ListOptions {
  readonly status?: 'active' | 'suspended' | 'revoked' | 'expired';
  readonly issuer?: string;
  readonly owner?: string;
  readonly trustTier?: 'L1' | 'L2' | 'L3';
}

function addReading(passports: Command, host: CommandHost): void {
  callsApi(
    lists(passports.command('list').description('passports, newest first'))
      .addOption(choice('--status <status>', 'only these', ['active', 'suspended', 'revoked', 'expired']))
      .option('--issuer <id>', 'of this issuer, iss_…')
      .option('--owner <text>', 'of this person or team')
      .addOption(choice('--trust-tier <tier>', 'only these', trustTiers)),
    host,
    [
      'agent-trust passports list --status active',
      'agent-trust passports list --all --json > passports.jsonl',
    ],
  ).action((options: PassportListOptions) =>
    withApi(host, options, async (work) => {
      const { status, issuer, owner, trustTier } = options;
      const filter = given({ status, owner, issuer_id: issuer, trust_tier: trustTier });
      await printList(work, options, {
        fetch: (query) => work.client.passports.list({ ...query, ...filter }),
        itemsOf: ({ items }) => items,
        columns: [
          { title: 'passport', of: ({ passport_id }) => passport_id },
          { title: 'agent', of: ({ agent_id }) => agent_id },
          { title: 'tier', of: ({ trust_tier }) => trust_tier },
          { title: 'status', of: (each) => each.status },
          { title: 'expires', of: ({ expires_at }) => expires_at },
          { title: 'permissions', of: ({ permissions }) => permissions.join(' ') },
        ],
      });
      return undefined;
    }),
  );
  const one = (name: 'get' | 'verify', description: string) =>
    callsApi(passports.command(name).description(description).argument('<passport>', 'pass_…'), host, [
      `agent-trust passports ${name} pass_…`,
    ]).action((id: string, options: ApiOptions) =>
      withApi(host, options, async ({ client, print }) => {
        print.item(await client.passports[name](id));
        return undefined;
      }),
    );
  one('get', 'one passport, without the token');
  one('verify', 'whether a passport is valid now, and why not');
}

interface IssueOptions extends ApiOptions {
  readonly agent?: string;
  readonly permission?: readonly string[];
  readonly name?: string;
  readonly issuer?: string;
  readonly trustTier?: string;
  readonly expiresIn?: string;
  readonly file?: string;
  readonly tokenFile?: string;
}

function addIssuing(passports: Command, host: CommandHost): void {
  callsApi(
    passports
      .command('issue')
      .description('issue a passport; its token, a credential, is shown this once')
      .option('--agent <id>', "the caller's own id of the agent")
      .option('--permission <keys...>', 'what it may do, such as orders:create')
      .option('--name <text>', 'name of the agent')
      .option('--issuer <id>', 'iss_…; default: the default issuer')
      .addOption(choice('--trust-tier <tier>', 'default: that of the issuer', trustTiers))
      .option('--expires-in <time>', 'such as 90d or 12h')
      .option('--file <file>', 'YAML or JSON with the members of a body; - reads standard input')
      .option('--token-file <file>', 'a new file for the token, for its owner alone; it is not shown then'),
    host,
    [
      'agent-trust passports issue --agent buyer-7 --permission orders:create --token-file buyer-7.jwt',
      'agent-trust passports issue --file passport.yaml --json',
    ],
  ).action((options: IssueOptions) =>
    withApi(host, options, async ({ client, print }) => {
      const { keepSecret, readBody } = await import('../base/files.ts');
      const { file, agent, permission, name, issuer, trustTier, expiresIn } = options;
      const body = {
        ...(file === undefined ? {} : await readBody(file, host.stdin)),
        ...given({ agent_id: agent, permissions: permission, agent_name: name, issuer_id: issuer }),
        ...given({ trust_tier: trustTier, expires_in: expiresIn }),
      } as unknown as ReferenceIssue;
      print.item(await keepSecret(options.tokenFile ?? null, 'jwt', () => client.passports.issue(body)));
      return undefined;
    }),
  );
}

function addEnding(passports: Command, host: CommandHost): void {
  callsApi(
    asksFirst(
      passports
        .command('revoke')
        .description('revoke a passport for good, at every sidecar')
        .argument('<passport>', 'pass_…')
        .option('--reason <text>', 'kept for the record'),
    ),
    host,
    ['agent-trust passports revoke pass_… --reason "key leaked" --yes'],
  ).action((id: string, options: ApiOptions & { yes?: boolean; reason?: string }) =>
    withApi(host, options, async (work) => {
      const { agreed } = await import('../base/agree.ts');
      if (!(await agreed(work, options, `Revoke the passport ${id} for good?`))) return 1;
      work.print.item(await work.client.passports.revoke(id, given({ reason: options.reason })));
      return undefined;
    }),
  );
  const change = (name: 'suspend' | 'reactivate', of: 'passports' | 'owners', description: string) => {
    const [suffix, argument, what] =
      of === 'passports' ? ['', '<passport>', 'pass_…'] : ['-owner', '<owner>', 'a person or team'];
    const command = passports.command(`${name}${suffix}`).description(description).argument(argument, what);
    if (name === 'reactivate')
      command.option('--issuer <id>', 'iss_…: what this issuer has said, in place of your own suspension');
    callsApi(command, host).action((id: string, options: ApiOptions & { readonly issuer?: string }) =>
      withApi(host, options, async ({ client, print }) => {
        print.item(
          name === 'suspend'
            ? await client[of].suspend(id)
            : await client[of].reactivate(id, given({ issuer_id: options.issuer })),
        );
        return undefined;
      }),
    );
  };
  change('suspend', 'passports', 'stop a passport until it is reactivated');
  change('reactivate', 'passports', 'end the suspension of a passport');
  change('suspend', 'owners', 'stop all passports of a person or team, later ones too');
  change('reactivate', 'owners', 'end the suspension of an owner');
}
