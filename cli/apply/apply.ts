import { type Command, InvalidArgumentError } from 'commander';
import type { ApiOptions, CommandHost } from '../base/host.ts';
import { asksFirst } from '../base/lists.ts';
import { callsApi, withApi } from '../base/with-api.ts';
import type { ApplyOptions } from './apply-options.ts';
import type { Label } from './apply-steps.ts';

/** Adds `agent-trust apply` and `agent-trust export`: an account as a file. */
export function addApplyCommands(program: Command, host: CommandHost): void {
  callsApi(
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
        ),
    ),
    host,
    [
      'agent-trust apply -f trust.yaml',
      'agent-trust apply -f trust.yaml --plan',
      'agent-trust apply -f trust.yaml --prune managed-by=apply --secrets-file hooks.jsonl --yes',
    ],
  ).action((options: ApplyOptions) =>
    withApi(host, options, async (work) => {
      const { applyFile } = await import('./apply-command.ts');
      return applyFile(work, options);
    }),
  );
  callsApi(
    program
      .command('export')
      .description('write an account as a file for `agent-trust apply`; without secrets'),
    host,
    [
      'agent-trust export > trust.yaml',
      'agent-trust export --profile a | agent-trust apply -f - --profile b --yes',
    ],
  ).action((options: ApiOptions) =>
    withApi(host, options, async (work) => {
      const { exportAccount } = await import('./export-account.ts');
      return exportAccount(work);
    }),
  );
}

function label(text: string): Label {
  const [, name, value] = /^([^=]+)=(.*)$/.exec(text) ?? [];
  if (name === undefined || value === undefined)
    throw new InvalidArgumentError('It is a label, such as managed-by=apply.');
  return { name, value };
}
