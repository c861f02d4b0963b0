import type { Command } from 'commander';
import type { ShadowPatch } from '../../clients/node/src/generated/api.ts';
import { trustTiers } from '../../shared/model/trust-tier.ts';
import type { ApiCommands } from '../base/api-commands.ts';
import { UsageError } from '../base/call-api.ts';
import { choice, given } from '../base/options.ts';

interface ShadowOptions {
  readonly file?: string;
  readonly constraints?: string;
  readonly trustLevel?: string;
  readonly expiresIn?: string;
}

/** Adds `agent-trust gates shadow` and `gates promote`. */
export function addShadowCommands(gates: Command, api: ApiCommands): void {
  const shadow = gates
    .command('shadow')
    .description('a policy that a gate tries beside its own: it decides nothing, and is on record');
  api.show<ShadowOptions>(
    shadow
      .command('put')
      .description('try a policy: a JSON merge patch on the live one')
      .argument('<gate>', 'gate_…')
      .option('--file <file>', 'YAML or JSON with constraints, trust_level, routes; - reads standard input')
      .option('--constraints <json>', 'constraints as JSON')
      .addOption(choice('--trust-level <level>', 'the least trust tier of a passport', trustTiers))
      .option('--expires-in <seconds>', 'how long; default 604800, at most 2592000'),
    {
      examples: [
        `agent-trust gates shadow put gate_… --constraints '{"spend_limits":{"per_transaction_usd":20}}'`,
        'agent-trust gates shadow put gate_… --file patch.yaml --expires-in 86400',
      ],
      of: async ({ client, id, options, readBody }) => {
        const { file, constraints, trustLevel, expiresIn } = options;
        const body = {
          ...(await readBody(file)),
          ...given({ trust_level: trustLevel }),
          ...(constraints === undefined ? {} : { constraints: objectOf(constraints) }),
          ...(expiresIn === undefined ? {} : { expires_in_s: Number(expiresIn) }),
        };
        return client.gates.putShadow(id, body as ShadowPatch);
      },
    },
  );
  api.show(shadow.command('show').description('the policy that is tried').argument('<gate>', 'gate_…'), {
    examples: ['agent-trust gates shadow show gate_…'],
    of: ({ client, id }) => client.gates.getShadow(id),
  });
  api.show<{ since?: string; until?: string }>(
    shadow
      .command('report')
      .description('what it would have decided otherwise, and about whom')
      .argument('<gate>', 'gate_…')
      .option('--since <time>', 'from then on; default: from its beginning')
      .option('--until <time>', 'before then; default: now'),
    {
      examples: [
        'agent-trust gates shadow report gate_…',
        "agent-trust gates shadow report gate_… --json | jq '.different'",
      ],
      of: ({ client, id, options: { since, until } }) =>
        client.gates.getShadowReport(id, given({ since, until })),
    },
  );
  api.show(shadow.command('delete').description('try it no longer').argument('<gate>', 'gate_…'), {
    examples: ['agent-trust gates shadow delete gate_…'],
    of: ({ client, id }) => client.gates.deleteShadow(id),
  });
  api.show<{ ifMatch?: string }>(
    gates
      .command('promote')
      .description('make the shadow of a gate its policy')
      .argument('<gate>', 'gate_…')
      .option('--if-match <etag>', 'only if the gate is still as it was then; default: as it is now'),
    {
      examples: ['agent-trust gates promote gate_… --yes'],
      asks: ({ id }) => `Make the shadow of ${id} its policy?`,
      of: async ({ client, id, options }) =>
        client.gates.promoteShadow(id, { ifMatch: options.ifMatch ?? '*' }),
    },
  );
}

function objectOf(text: string): object {
  try {
    return JSON.parse(text);
  } catch {
    throw new UsageError('--constraints must be JSON, such as {"spend_limits":{"daily_usd":100}}.');
  }
}
