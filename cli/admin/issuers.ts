import type { Command } from 'commander';
import type { IssuerCreation, IssuerUpdate, TemplateCreation } from '../../clients/node/src/generated/api.ts';
import { trustTiers } from '../../shared/model/trust-tier.ts';
import { choice } from '../base/choice.ts';
import { given } from '../base/given.ts';
import type { ApiOptions, CommandHost } from '../base/host.ts';
import { type ListOptions, lists, printList } from '../base/lists.ts';
import { callsApi, withApi } from '../base/with-api.ts';

interface IssuerOptions extends ApiOptions {
  readonly name?: string;
  readonly domain?: string;
  readonly trustTier?: string;
  readonly file?: string;
}

/** Adds `agent-trust issuers` and `agent-trust templates`. */
export function addIssuerCommands(program: Command, host: CommandHost): void {
  const issuers = program.command('issuers').description('issuers: in whose name passports are issued');
  addReading(issuers, host);
  addChanging(issuers, host);
  addTemplates(program.command('templates').description('templates: start values of new gates'), host);
}

function addReading(issuers: Command, host: CommandHost): void {
  callsApi(lists(issuers.command('list').description('issuers, newest first')), host, [
    'agent-trust issuers list',
  ]).action((options: ListOptions) =>
    withApi(host, options, async (work) => {
      await printList(work, options, {
        fetch: (query) => work.client.issuers.list(query),
        itemsOf: ({ items }) => items,
        columns: [
          { title: 'issuer', of: ({ issuer_id }) => issuer_id },
          { title: 'name', of: ({ name }) => name },
          { title: 'type', of: ({ federation }) => federation?.type ?? 'own' },
          { title: 'domain', of: ({ domain }) => domain },
          { title: 'tier', of: ({ trust_tier }) => trust_tier },
          { title: 'status', of: ({ status }) => status },
          { title: 'passports', of: ({ active_passports }) => active_passports },
        ],
      });
      return undefined;
    }),
  );
  callsApi(issuers.command('get').description('one issuer').argument('<issuer>', 'iss_…'), host).action(
    (id: string, options: ApiOptions) =>
      withApi(host, options, async ({ client, print }) => {
        print.item(await client.issuers.get(id));
        return undefined;
      }),
  );
}

const fileHelp = 'YAML or JSON with the members of a body; - reads standard input';

function addChanging(issuers: Command, host: CommandHost): void {
  callsApi(
    issuers
      .command('create')
      .description('create an issuer')
      .option('--name <text>', 'its name')
      .option('--domain <host>', 'the host name that it claims')
      .addOption(choice('--trust-tier <tier>', 'the highest of its passports', trustTiers))
      .option('--file <file>', fileHelp),
    host,
    ['agent-trust issuers create --name "Acme agents" --domain acme.example'],
  ).action((options: IssuerOptions) =>
    withApi(host, options, async ({ client, print }) => {
      const { domain, trustTier } = options;
      const body = { ...(await bodyOf(host, options)), ...given({ domain, trust_tier: trustTier }) };
      print.item(await client.issuers.create(body as unknown as IssuerCreation));
      return undefined;
    }),
  );
  callsApi(
    issuers
      .command('update')
      .description('change the name or the metadata of an issuer')
      .argument('<issuer>', 'iss_…')
      .option('--name <text>', 'its name')
      .option('--file <file>', fileHelp),
    host,
  ).action((id: string, options: IssuerOptions) =>
    withApi(host, options, async ({ client, print }) => {
      print.item(await client.issuers.update(id, (await bodyOf(host, options)) as IssuerUpdate));
      return undefined;
    }),
  );
  const change = (name: string, status: 'active' | 'suspended', description: string) =>
    callsApi(issuers.command(name).description(description).argument('<issuer>', 'iss_…'), host).action(
      (id: string, options: ApiOptions) =>
        withApi(host, options, async ({ client, print }) => {
          print.item(await client.issuers.update(id, { status }));
          return undefined;
        }),
    );
  addFederated(issuers, host);
  change('suspend', 'suspended', 'stop all passports of an issuer until it is reactivated');
  change('reactivate', 'active', 'end the suspension of an issuer');
}

/** What is asked of an issuer of others. */
function addFederated(issuers: Command, host: CommandHost): void {
  callsApi(
    issuers
      .command('try-token')
      .description('say what a token of an issuer of others would become')
      .argument('<issuer>', 'iss_…')
      .requiredOption('--file <file>', 'holds the token; - reads standard input')
      .option('--gate <gate>', 'gate_…: also says what this gate makes of it'),
    host,
  ).action((id: string, options: IssuerOptions & { readonly gate?: string }) =>
    withApi(host, options, async ({ client, print }) => {
      const { readInput } = await import('../base/files.ts');
      const token = (await readInput(options.file ?? '-', host.stdin)).trim();
      print.item(await client.issuers.tryToken(id, { token, ...given({ gate_id: options.gate }) }));
      return undefined;
    }),
  );
  callsApi(
    issuers
      .command('revoke-subject')
      .description('revoke a subject of an issuer of others, seen or not')
      .argument('<issuer>', 'iss_…')
      .argument('<subject>', 'as its tokens name it')
      .option('--reason <text>', 'kept for the record'),
    host,
    ['agent-trust issuers revoke-subject iss_… system:serviceaccount:agents:shop --reason "stolen key"'],
  ).action((id: string, subject: string, options: ApiOptions & { readonly reason?: string }) =>
    withApi(host, options, async ({ client, print }) => {
      print.item(await client.issuers.revokeSubject(id, { subject, ...given({ reason: options.reason }) }));
      return undefined;
    }),
  );
}

function addTemplates(templates: Command, host: CommandHost): void {
  callsApi(lists(templates.command('list').description('templates, built-in ones too')), host).action(
    (options: ListOptions) =>
      withApi(host, options, async (work) => {
        await printList(work, options, {
          fetch: (query) => work.client.templates.list(query),
          itemsOf: ({ items }) => items,
          columns: [
            { title: 'template', of: ({ template_id }) => template_id },
            { title: 'name', of: ({ name }) => name },
            { title: 'level', of: ({ trust_level }) => trust_level },
            { title: 'description', of: ({ description }) => description },
          ],
        });
        return undefined;
      }),
  );
  callsApi(
    templates.command('get').description('one template').argument('<template>', 'tmpl_…'),
    host,
  ).action((id: string, options: ApiOptions) =>
    withApi(host, options, async ({ client, print }) => {
      print.item(await client.templates.get(id));
      return undefined;
    }),
  );
  callsApi(
    templates
      .command('create')
      .description('create a template; it cannot be changed afterwards')
      .requiredOption('--file <file>', fileHelp),
    host,
  ).action((options: IssuerOptions) =>
    withApi(host, options, async ({ client, print }) => {
      const body = await bodyOf(host, options);
      print.item(await client.templates.create(body as unknown as TemplateCreation));
      return undefined;
    }),
  );
}

/** The members of a file, and over them the name. */
async function bodyOf(host: CommandHost, options: IssuerOptions): Promise<Readonly<Record<string, unknown>>> {
  const { readBody } = await import('../base/files.ts');
  const { file, name } = options;
  return { ...(file === undefined ? {} : await readBody(file, host.stdin)), ...given({ name }) };
}
