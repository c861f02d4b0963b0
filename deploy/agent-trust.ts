#!/usr/bin/env node
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { Command } from 'commander';
import { verifyAttestationsCommand } from '../control-plane/cli/verify-attestations.ts';
import { addWebhooksCommand } from '../control-plane/cli/webhooks.ts';
import { startControlPlane } from '../control-plane/main.ts';
import { describeSettings, settingSourcesHelp } from '../shared/runtime/describe-settings.ts';
import { type Logger, standardErrorLogger } from '../shared/runtime/logger.ts';
import {
  type Program,
  parseSettings,
  parseSidecarSettings,
  SettingsError,
  type SettingValues,
} from '../shared/runtime/settings.ts';
import { StartError } from '../shared/runtime/start-error.ts';
import { startSidecar } from '../sidecar/main.ts';
import { startAllInOne } from './all-in-one.ts';
import { type Running, runUntilSignal } from './run-until-signal.ts';

/** Exit codes: 0 ended as told, 1 could not start or broke, 2 wrong arguments or settings, 5 an export that does not verify. */
const wrongUse = 2;
const everything = ['control-plane', 'sidecar'] as const;

/** Parses before it logs, because LOG_LEVEL is a setting too. */
async function run<Settings extends SettingValues>(
  name: string,
  parse: () => Settings,
  start: (settings: Settings, extras: { logger: Logger; signal: AbortSignal }) => Promise<Running>,
): Promise<number> {
  let settings: Settings;
  try {
    settings = parse();
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    const problems = error.problems.map((problem) => `  ${problem}\n`).join('');
    process.stderr.write(`agent-trust: these settings are wrong:\n${problems}`);
    return wrongUse;
  }
  const logger = standardErrorLogger({ level: settings.LOG_LEVEL, name });
  return runUntilSignal(
    (signal) =>
      start(settings, { logger, signal }).catch((error: unknown) => {
        throw asStartError(error, resolve(settings.DATA_DIR));
      }),
    logger,
  );
}

/** A file that cannot be read or written where our own files are: read-only, of another user, no room. Whoever starts the program can mend that. */
function asStartError(error: unknown, dataDir: string): unknown {
  if (!(error instanceof Error && 'path' in error && typeof error.path === 'string')) return error;
  if (!error.path.startsWith(`${dataDir}/`)) return error;
  return new StartError(
    `DATA_DIR ${dataDir} cannot be used: ${error.message}. This user must be able to read and write all of it; mend that, or set DATA_DIR to another folder.`,
    { cause: error },
  );
}

/** The package that this file belongs to, wherever it was compiled to. */
function version(): string {
  for (let folder = new URL('.', import.meta.url); ; folder = new URL('..', folder)) {
    try {
      const manifest = JSON.parse(readFileSync(new URL('package.json', folder), 'utf8'));
      return manifest.version;
    } catch (error) {
      if (folder.pathname === '/') throw error;
    }
  }
}

function commands(setExitCode: (code: number) => void): Command {
  const env = process.env;
  const settingsHelp = (programs: readonly Program[]) => () =>
    `\nSettings, from the environment:\n${describeSettings(programs, env)}\n\n${settingSourcesHelp}\n`;

  const program = new Command('agent-trust')
    .description(
      'The trust layer for autonomous software agents: passports, gates, decisions and a signed record of each.',
    )
    .version(version())
    .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, 'agent-trust: ')) })
    .exitOverride((end) => process.exit(end.exitCode === 0 ? 0 : wrongUse))
    .showHelpAfterError('Add --help for what there is.')
    .addHelpText('after', settingsHelp(everything));

  // The default takes what is no command as its arguments, and must not speak of itself to somebody who has mistyped another one.
  program
    .command('start', { isDefault: true })
    .allowExcessArguments()
    .description(
      'control plane and sidecar in one process, with an embedded PostgreSQL unless DATABASE_URL is set',
    )
    .addHelpText('after', settingsHelp(everything))
    .action(async (_options: object, { args: [unknown] }: Command) => {
      if (unknown !== undefined) program.error(`error: there is no command "${unknown}".`);
      setExitCode(await run('agent-trust', () => parseSettings(everything, env), startAllInOne));
    });

  program
    .command('control-plane')
    .description('the control plane alone')
    .addHelpText('after', settingsHelp(['control-plane']))
    .action(async () =>
      setExitCode(await run('control-plane', () => parseSettings(['control-plane'], env), startControlPlane)),
    );

  program
    .command('sidecar')
    .description('a sidecar alone, beside a resource server')
    .addHelpText('after', settingsHelp(['sidecar']))
    .action(async () => setExitCode(await run('sidecar', () => parseSidecarSettings(env), startSidecar)));

  program
    .command('attestations')
    .description('what can be done with the signed record')
    .command('verify')
    .description(
      'verify an export (jsonl or json) offline; exit 0: everything holds, 5: it does not, 2: a file is missing',
    )
    .argument('<file>', 'the export; - reads standard input')
    .requiredOption('--jwks <file>', "the service's /.well-known/jwks.json, fetched by yourself")
    .action(async (file: string, options: { jwks: string }) =>
      setExitCode(await verifyAttestationsCommand({ file, jwks: options.jwks, output: process.stdout })),
    );

  const { stdout: output, stderr: errors } = process;
  addWebhooksCommand(program, { env, output, errors, setExitCode, stopSignal });
  return program;
}

/** Aborted by a signal to end. What the command then still does is bounded, and a second signal, which npm sends, does not cut it short. */
function stopSignal(): AbortSignal {
  const controller = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => controller.abort());
  return controller.signal;
}

let exitCode = 0;
const program = commands((code) => {
  exitCode = code;
});
await program.parseAsync();
process.exit(exitCode);
