import { type Command, InvalidArgumentError } from 'commander';
import { ApiCommands, asksFirst } from '../base/api-commands.ts';
import { readSince } from '../base/backtest.ts';
import type { CommandHost } from '../base/host.ts';
import type { ApplyOptions } from './apply-options.ts';
import type { Label } from './apply-steps.ts';

/** Adds `agent-trust apply` and `agent-trust export`: an account as a file. */
export function addApplyCommands(program: Command, host: CommandHost): void {
  const api = new ApiCommands(host);
  api.run<ApplyOptions>(
    asksFirst(
      program
        .command('apply')
        .description(
          'make wallets, issuers, templates, gates, catalogs, webhooks and channels what a file says, after showing a plan',
        )
        .requiredOption('-f, --file <file>', 'YAML (docs/apply.schema.json); - reads standard input')
        .option('--plan', 'show the plan alone; exit 3: there is something to do')
        .option(
          '--prune <label>',
          'NAME=VALUE: delete gates, wallets and webhooks that have it and are not in the file',
          label,
        )
        .option(
          '--secrets-file <file>',
          'gets the secrets of new webhooks and channels, which are shown nowhere else',
        )
        .option(
          '--backtest <time>',
          'shows what each changed policy would have decided since then, such as 30d, before anybody is asked',
          readSince,
        )
        .option(
          '--shadow',
          'puts changed policies in shadow, beside those in force, and changes nothing else',
        ),
    ),
    {
      examples: [
        'agent-trust apply -f trust.yaml',
        'agent-trust apply -f trust.yaml --plan',
        'agent-trust apply -f trust.yaml --backtest 30d',
        'agent-trust apply -f trust.yaml --shadow',
        'agent-trust apply -f trust.yaml --prune managed-by=apply --secrets-file hooks.jsonl --yes',
      ],
      work: async (call) => {
        const { applyFile } = await import('./apply-command.ts');
        return applyFile(call, call.options);
      },
    },
  );
  api.run(
    program
      .command('export')
      .description('write an account as a file for `agent-trust apply`; without secrets'),
    {
      examples: [
        'agent-trust export > trust.yaml',
        'agent-trust export --profile a | agent-trust apply -f - --profile b --yes',
      ],
      work: async (call) => {
        const { exportAccount } = await import('./export-account.ts');
        return exportAccount(call);
      },
    },
  );
}

function label(text: string): Label {
  const [, name, value] = /^([^=]+)=(.*)$/.exec(text) ?? [];
  if (name === undefined || value === undefined)
    throw new InvalidArgumentError('It is a label, such as managed-by=apply.');
  return { name, value };
}
