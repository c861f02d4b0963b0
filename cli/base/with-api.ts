import type { Command } from 'commander';
import type { ExitCode } from '../../shared/runtime/exit-codes.ts';
import type { ApiOptions, CommandHost, Work } from './host.ts';

/** Adds `--json`, `--profile` and the end of the help. `examples`: command lines, each on its own. */
export function callsApi(command: Command, host: CommandHost, examples: readonly string[] = []): Command {
  return command
    .option('--json', 'for scripts: JSON, one object a line')
    .option('--profile <name>', 'a service of `agent-trust login`; default: see below')
    .addHelpText('after', () => `${examplesHelp(examples)}${host.help()}`);
}

export const examplesHelp = (examples: readonly string[]): string =>
  examples.length === 0 ? '' : `\nExamples:\n${examples.map((each) => `  ${each}\n`).join('')}`;

/** Does the work of a command, closes its connections, and ends it with its exit code; undefined: success. */
export async function withApi(
  host: CommandHost,
  options: ApiOptions,
  work: (work: Work) => Promise<ExitCode | undefined>,
): Promise<void> {
  // What it imports is for those commands only that call the service.
  const { workWithApi } = await import('./work.ts');
  host.setExitCode(await workWithApi(host, options, work));
}
