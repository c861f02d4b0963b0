import type { Command } from 'commander';
import type { IssuerCreation, IssuerUpdate, TemplateCreation } from '../../clients/node/src/generated/api.ts';
import { trustTiers } from '../../shared/model/trust-tier.ts';
import { ApiCommands, type Call } from '../base/api-commands.ts';
import type { CommandHost } from '../base/host.ts';
import { lists } from '../base/lists.ts';
import { choice, given } from '../base/options.ts';

interface IssuerOptions {
  readonly name?: string;
  readonly domain?: string;
  readonly trustTier?: string;
  readonly file?: string;
}

/** Adds `agent-trust issuers` and `agent-trust templates`. */
export function addIssuerCommands(program: Command, host: CommandHost): void {
  const issuers = program.command('issuers').description('issuers: in whose name passports are issued');
  const api = new ApiCommands(host);
  addReading(issuers, api);
  addChanging(issuers, api);
  addTemplates(program.command('templates').description('templates: start values of new gates'), api);
}

function addReading(issuers: Command, api: ApiCommands): void {
  api.list(lists(issuers.command('list').description('issuers, newest first')), {
    examples: ['agent-trust issuers list'],
    page: ({ client }, query) => client.issuers.list(query),
    columns: {
      issuer: 'issuer_id',
      name: 'name',
      type: ({ federation }) => federation?.type ?? 'own',
      domain: 'domain',
      tier: 'trust_tier',
      status: 'status',
      passports: 'active_passports',
    },
  });
  api.show(issuers.command('get').description('one issuer').argument('<issuer>', 'iss_…'), {
    of: ({ client, id }) => client.issuers.get(id),
  });
}

const fileHelp = 'YAML or JSON with the members of a body; - reads standard input';

function addChanging(issuers: Command, api: ApiCommands): void {
  api.show<IssuerOptions>(
    issuers
      .command('create')
      .description('create an issuer')
      .option('--name <text>', 'its name')
      .option('--domain <host>', 'the host name that it claims')
      .addOption(choice('--trust-tier <tier>', 'the highest of its passports', trustTiers))
      .option('--file <file>', fileHelp),
    {
      examples: ['agent-trust issuers create --name "Acme agents" --domain acme.example'],
      of: async (call) => {
        const { domain, trustTier } = call.options;
        const body = { ...(await bodyOf(call)), ...given({ domain, trust_tier: trustTier }) };
        return call.client.issuers.create(body as unknown as IssuerCreation);
      },
    },
  );
  api.show<IssuerOptions>(
    issuers
      .command('update')
      .description('change the name or the metadata of an issuer')
      .argument('<issuer>', 'iss_…')
      .option('--name <text>', 'its name')
      .option('--file <file>', fileHelp),
    { of: async (call) => call.client.issuers.update(call.id, (await bodyOf(call)) as IssuerUpdate) },
  );
  addFederated(issuers, api);
  const change = (name: string, status: 'active' | 'suspended', description: string) =>
    api.show(issuers.command(name).description(description).argument('<issuer>', 'iss_…'), {
      of: ({ client, id }) => client.issuers.update(id, { status }),
    });
  change('suspend', 'suspended', 'stop all passports of an issuer until it is reactivated');
  change('reactivate', 'active', 'end the suspension of an issuer');
}

/** What is asked of an issuer of others. */
function addFederated(issuers: Command, api: ApiCommands): void {
  api.show<{ file: string; gate?: string }>(
    issuers
      .command('try-token')
      .description('say what a token of an issuer of others would become')
      .argument('<issuer>', 'iss_…')
      .requiredOption('--file <file>', 'holds the token; - reads standard input')
      .option('--gate <gate>', 'gate_…: also says what this gate makes of it'),
    {
      of: async ({ client, id, options: { file, gate }, dialogue }) => {
        const { readInput } = await import('../base/files.ts');
        const token = (await readInput(file, dialogue.stdin)).trim();
        return client.issuers.tryToken(id, { token, ...given({ gate_id: gate }) });
      },
    },
  );
  api.show<{ reason?: string }>(
    issuers
      .command('revoke-subject')
      .description('revoke a subject of an issuer of others, seen or not')
      .argument('<issuer>', 'iss_…')
      .argument('<subject>', 'as its tokens name it')
      .option('--reason <text>', 'kept for the record'),
    {
      examples: [
        'agent-trust issuers revoke-subject iss_… system:serviceaccount:agents:shop --reason "stolen key"',
      ],
      of: ({ client, id, args: [, subject = ''], options: { reason } }) =>
        client.issuers.revokeSubject(id, { subject, ...given({ reason }) }),
    },
  );
}

function addTemplates(templates: Command, api: ApiCommands): void {
  api.list(lists(templates.command('list').description('templates, built-in ones too')), {
    page: ({ client }, query) => client.templates.list(query),
    columns: {
      template: 'template_id',
      name: 'name',
      level: 'trust_level',
      description: 'description',
    },
  });
  api.show(templates.command('get').description('one template').argument('<template>', 'tmpl_…'), {
    of: ({ client, id }) => client.templates.get(id),
  });
  api.show<IssuerOptions>(
    templates
      .command('create')
      .description('create a template; it cannot be changed afterwards')
      .requiredOption('--file <file>', fileHelp),
    {
      of: async (call) => call.client.templates.create((await bodyOf(call)) as unknown as TemplateCreation),
    },
  );
}

/** The members of a file, and over them the name. */
const bodyOf = async ({ options: { file, name }, readBody }: Call<IssuerOptions>) => ({
  ...(await readBody(file)),
  ...given({ name }),
});
