import type { Command } from 'commander';
import type { CatalogPublication, GateCreation, GatePatch } from '../../clients/node/src/generated/api.ts';
import { trustTiers } from '../../shared/model/trust-tier.ts';
import { choice } from '../base/choice.ts';
import { given } from '../base/given.ts';
import type { ApiOptions, CommandHost } from '../base/host.ts';
import { asksFirst, type ListOptions, lists, printList } from '../base/lists.ts';
import { callsApi, withApi } from '../base/with-api.ts';

interface GateOptions extends ApiOptions {
  readonly file?: string;
  readonly name?: string;
  readonly description?: string;
  readonly trustLevel?: string;
  readonly template?: string;
  readonly ifMatch?: string;
}

/** Adds `agent-trust gates`. */
export function addGateCommands(program: Command, host: CommandHost): void {
  const gates = program.command('gates').description('gates: what an agent may do, and how much');
  addReading(gates, host);
  addChanging(gates, host);
}

function addReading(gates: Command, host: CommandHost): void {
  callsApi(lists(gates.command('list').description('gates, newest first')), host, [
    'agent-trust gates list',
    "agent-trust gates list --all --json | jq -r 'select(.block_count > 0).gate_id'",
  ]).action((options: ListOptions) =>
    withApi(host, options, async (work) => {
      await printList(work, options, {
        fetch: (query) => work.client.gates.list(query),
        itemsOf: ({ items }) => items,
        columns: [
          { title: 'gate', of: ({ gate_id }) => gate_id },
          { title: 'name', of: ({ name }) => name },
          { title: 'level', of: ({ trust_level }) => trust_level },
          { title: 'requests', of: ({ request_count }) => request_count },
          { title: 'permits', of: ({ permit_count }) => permit_count },
          { title: 'blocks', of: ({ block_count }) => block_count },
          { title: 'changed', of: ({ updated_at }) => updated_at },
        ],
      });
      return undefined;
    }),
  );
  callsApi(gates.command('get').description('one gate, with its policy').argument('<gate>', 'gate_…'), host, [
    'agent-trust gates get gate_…',
  ]).action((id: string, options: ApiOptions) =>
    withApi(host, options, async ({ client, print }) => {
      print.item(await client.gates.get(id));
      return undefined;
    }),
  );
  callsApi(
    gates.command('catalog').description('what a gate offers, as it is signed').argument('<gate>', 'gate_…'),
    host,
  ).action((id: string, options: ApiOptions) =>
    withApi(host, options, async ({ client, print }) => {
      print.item((await client.catalogs.get(id)) ?? {});
      return undefined;
    }),
  );
}

const policyOptions = (command: Command): Command =>
  command
    .option('--file <file>', 'YAML or JSON with the members of a gate; - reads standard input')
    .option('--name <text>', 'its name')
    .option('--description <text>', 'text for people')
    .addOption(choice('--trust-level <level>', 'the least trust tier of a passport', trustTiers));

function addChanging(gates: Command, host: CommandHost): void {
  callsApi(
    policyOptions(gates.command('create').description('create a gate')).option(
      '--template <id>',
      'a template, by its id',
    ),
    host,
    [
      'agent-trust gates create --name Orders --trust-level L1',
      'agent-trust gates create --name Orders --template payments-low-risk',
      'agent-trust gates create --file orders.yaml',
    ],
  ).action((options: GateOptions) =>
    withApi(host, options, async ({ client, print }) => {
      const body = { ...(await bodyOf(host, options)), ...given({ template_id: options.template }) };
      print.item(await client.gates.create(body as unknown as GateCreation));
      return undefined;
    }),
  );
  callsApi(
    policyOptions(
      gates
        .command('update')
        .description('change members of a gate: a JSON merge patch, in which null removes')
        .argument('<gate>', 'gate_…'),
    ).option('--if-match <etag>', 'only if the gate is still as it was then'),
    host,
    ['agent-trust gates update gate_… --name Checkout', 'agent-trust gates update gate_… --file patch.yaml'],
  ).action((id: string, options: GateOptions) =>
    withApi(host, options, async ({ client, print }) => {
      const patch = (await bodyOf(host, options)) as GatePatch;
      print.item(await client.gates.update(id, patch, given({ ifMatch: options.ifMatch })));
      return undefined;
    }),
  );
  callsApi(
    asksFirst(gates.command('delete').description('delete a gate for good').argument('<gate>', 'gate_…')),
    host,
    ['agent-trust gates delete gate_… --yes'],
  ).action((id: string, options: ApiOptions & { yes?: boolean }) =>
    withApi(host, options, async (work) => {
      const { agreed } = await import('../base/agree.ts');
      if (!(await agreed(work, options, `Delete the gate ${id} for good?`))) return 1;
      work.print.item(await work.client.gates.delete(id));
      return undefined;
    }),
  );
  callsApi(
    gates
      .command('publish')
      .description('publish the next version of the catalog of a gate')
      .argument('<gate>', 'gate_…')
      .requiredOption('--file <file>', 'YAML or JSON with permissions; - reads standard input'),
    host,
    ['agent-trust gates publish gate_… --file catalog.yaml'],
  ).action((id: string, options: ApiOptions & { file: string }) =>
    withApi(host, options, async ({ client, print }) => {
      const { readBody } = await import('../base/files.ts');
      const body = await readBody(options.file, host.stdin);
      print.item(await client.catalogs.publish(id, body as unknown as CatalogPublication));
      return undefined;
    }),
  );
}

/** The members of a file, and over them those of options. */
async function bodyOf(host: CommandHost, options: GateOptions): Promise<Readonly<Record<string, unknown>>> {
  const { readBody } = await import('../base/files.ts');
  const { file, name, description, trustLevel } = options;
  const body = file === undefined ? {} : await readBody(file, host.stdin);
  return { ...body, ...given({ name, description, trust_level: trustLevel }) };
}
