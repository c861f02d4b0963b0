import type { Command } from 'commander';
import type {
  BacktestRequest,
  CatalogPublication,
  GateCreation,
  GatePatch,
} from '../../clients/node/src/generated/api.ts';
import { trustTiers } from '../../shared/model/trust-tier.ts';
import { ApiCommands, type Call } from '../base/api-commands.ts';
import { backtestGate, printBacktest, readSince } from '../base/backtest.ts';
import { UsageError } from '../base/call-api.ts';
import type { CommandHost } from '../base/host.ts';
import { lists } from '../base/lists.ts';
import { choice, given } from '../base/options.ts';
import { addShadowCommands } from './gate-shadows.ts';

interface GateOptions {
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
  const api = new ApiCommands(host);
  addReading(gates, api);
  addChanging(gates, api);
  addTrying(gates, api);
  addShadowCommands(gates, api);
}

function addReading(gates: Command, api: ApiCommands): void {
  api.list(lists(gates.command('list').description('gates, newest first')), {
    examples: [
      'agent-trust gates list',
      "agent-trust gates list --all --json | jq -r 'select(.block_count > 0).gate_id'",
    ],
    page: ({ client }, query) => client.gates.list(query),
    columns: {
      gate: 'gate_id',
      name: 'name',
      level: 'trust_level',
      requests: 'request_count',
      permits: 'permit_count',
      blocks: 'block_count',
      changed: 'updated_at',
    },
  });
  api.show(gates.command('get').description('one gate, with its policy').argument('<gate>', 'gate_…'), {
    examples: ['agent-trust gates get gate_…'],
    of: ({ client, id }) => client.gates.get(id),
  });
  api.show(
    gates.command('catalog').description('what a gate offers, as it is signed').argument('<gate>', 'gate_…'),
    { of: async ({ client, id }) => (await client.catalogs.get(id)) ?? {} },
  );
}

const policyOptions = (command: Command): Command =>
  command
    .option('--file <file>', 'YAML or JSON with the members of a gate; - reads standard input')
    .option('--name <text>', 'its name')
    .option('--description <text>', 'text for people')
    .addOption(choice('--trust-level <level>', 'the least trust tier of a passport', trustTiers));

function addChanging(gates: Command, api: ApiCommands): void {
  api.show<GateOptions>(
    policyOptions(gates.command('create').description('create a gate')).option(
      '--template <id>',
      'a template, by its id',
    ),
    {
      examples: [
        'agent-trust gates create --name Orders --trust-level L1',
        'agent-trust gates create --name Orders --template payments-low-risk',
        'agent-trust gates create --file orders.yaml',
      ],
      of: async (call) => {
        const body = { ...(await bodyOf(call)), ...given({ template_id: call.options.template }) };
        return call.client.gates.create(body as unknown as GateCreation);
      },
    },
  );
  api.show<GateOptions>(
    policyOptions(
      gates
        .command('update')
        .description('change members of a gate: a JSON merge patch, in which null removes')
        .argument('<gate>', 'gate_…'),
    ).option('--if-match <etag>', 'only if the gate is still as it was then'),
    {
      examples: [
        'agent-trust gates update gate_… --name Checkout',
        'agent-trust gates update gate_… --file patch.yaml',
      ],
      of: async (call) => {
        const { client, id, options } = call;
        const patch = (await bodyOf(call)) as GatePatch;
        return client.gates.update(id, patch, given({ ifMatch: options.ifMatch }));
      },
    },
  );
  api.show(gates.command('delete').description('delete a gate for good').argument('<gate>', 'gate_…'), {
    examples: ['agent-trust gates delete gate_… --yes'],
    asks: ({ id }) => `Delete the gate ${id} for good?`,
    of: ({ client, id }) => client.gates.delete(id),
  });
  api.show<{ file: string }>(
    gates
      .command('publish')
      .description('publish the next version of the catalog of a gate')
      .argument('<gate>', 'gate_…')
      .requiredOption('--file <file>', 'YAML or JSON with permissions; - reads standard input'),
    {
      examples: ['agent-trust gates publish gate_… --file catalog.yaml'],
      of: async ({ client, id, options, readBody }) =>
        client.catalogs.publish(id, (await readBody(options.file)) as unknown as CatalogPublication),
    },
  );
}

/** The members of a file, and over them those of options. */
async function bodyOf({ options, readBody }: Call<GateOptions>) {
  const { file, name, description, trustLevel } = options;
  return { ...(await readBody(file)), ...given({ name, description, trust_level: trustLevel }) };
}

interface BacktestOptions {
  readonly file?: string;
  readonly constraints?: string;
  readonly trustLevel?: BacktestRequest['trust_level'];
  readonly since?: string;
  readonly until?: string;
}

function addTrying(gates: Command, api: ApiCommands): void {
  api.run<BacktestOptions>(
    gates
      .command('backtest')
      .description('what another policy would have decided, from the records of the gate')
      .argument('<gate>', 'gate_…')
      .option('--file <file>', 'YAML or JSON with constraints, trust_level or routes; - reads standard input')
      .option('--constraints <json>', 'a JSON merge patch on the constraints of the gate')
      .addOption(choice('--trust-level <level>', 'the least trust tier of a passport', trustTiers))
      .option('--since <time>', 'so far back, such as 30d or 12h, or a time (default: 30d)', readSince)
      .option('--until <time>', 'up to then, in the same forms (default: now)', readSince),
    {
      examples: [
        `agent-trust gates backtest gate_… --constraints '{"spend_limits":{"per_transaction_usd":20}}'`,
        'agent-trust gates backtest gate_… --file patch.yaml --since 7d --json',
      ],
      work: async (call) => {
        const { file, constraints, trustLevel, since, until } = call.options;
        const patch = constraints === undefined ? undefined : readJson(constraints);
        const body = {
          ...(await call.readBody(file)),
          ...given({ constraints: patch, trust_level: trustLevel, since, until }),
        };
        const backtest = await backtestGate(call, call.id, body as BacktestRequest);
        if (call.print.isJson) call.print.item(backtest);
        else printBacktest(call, backtest);
        return undefined;
      },
    },
  );
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new UsageError('--constraints is no JSON. Put it in single quotes, or use --file.');
  }
}
