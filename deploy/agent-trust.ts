#!/usr/bin/env node
import { resolve } from 'node:path';
import { Argument, Command } from 'commander';
import { addAdminCommands } from '../cli/admin/admin.ts';
import { type CheckedProgram, checkedPrograms } from '../cli/admin/healthcheck.ts';
import { apiAccessOf, apiKeyHelp, commandSettings } from '../cli/base/api-access.ts';
import { CommandError } from '../cli/base/call-api.ts';
import type { CommandHost } from '../cli/base/host.ts';
import { addWitnessCommand } from '../cli/witness/command.ts';
import { addGuardMcpCommand } from '../mcp-proxy/command.ts';
import { visible } from '../shared/model/plain-text.ts';
import { describeSettings, settingSourcesHelp } from '../shared/runtime/describe-settings.ts';
import { exitCode, exitCodesHelp } from '../shared/runtime/exit-codes.ts';
import { type Logger, standardErrorLogger } from '../shared/runtime/logger.ts';
import { packageVersion } from '../shared/runtime/package-version.ts';
import {
  ignoredSettings,
  originOf,
  type Program,
  parseSettings,
  parseSidecarSettings,
  SettingsError,
  type SettingValues,
} from '../shared/runtime/settings.ts';
import { repairJsonParse } from '../shared/runtime/sound-json.ts';
import { StartError } from '../shared/runtime/start-error.ts';
import { describeFirstOwner } from './first-owner.ts';
import { leaveClosedTerminal, type Running, runUntilSignal } from './run-until-signal.ts';

repairJsonParse();

// The programs are imported by the command that needs them: loading all of them takes more than a second,
// which a health check or `--help` would pay.

interface RecoverOptions {
  readonly apply: boolean;
  readonly keepOlderGates: boolean;
  readonly profile?: string;
}

const everything = ['control-plane', 'sidecar'] as const;

/** Logs only once the settings are read, because LOG_LEVEL is one. Throws SettingsError. */
async function run<Settings extends SettingValues>(
  name: string,
  settings: Settings,
  start: (settings: Settings, extras: { logger: Logger; signal: AbortSignal }) => Promise<Running>,
): Promise<number> {
  const logger = standardErrorLogger({ level: settings.LOG_LEVEL, name });
  for (const setting of ignoredSettings(process.env)) {
    logger.warn(
      { setting },
      'ignored: it holds the address of a Service, which Kubernetes sets; AGENT_TRUST_<NAME> sets it for certain',
    );
  }
  return runUntilSignal(
    (signal) =>
      start(settings, { logger, signal }).catch((error: unknown) => {
        throw asStartError(error, resolve(settings.DATA_DIR));
      }),
    logger,
    { drainGraceMs: settings.DRAIN_GRACE_MS },
  );
}

/**
 * A file that cannot be read or written where our own files are: read-only, of another user, no room. Whoever
 * starts the program can mend that.
 */
function asStartError(error: unknown, dataDir: string): unknown {
  if (!(error instanceof Error && 'path' in error && typeof error.path === 'string')) return error;
  // Also where DATA_DIR, or a folder above it, cannot be made.
  const [path, folder] = [`${error.path}/`, `${dataDir}/`];
  if (!path.startsWith(folder) && !folder.startsWith(path)) return error;
  return new StartError(
    `DATA_DIR ${dataDir} cannot be used: ${error.message}. This user must be able to read and write all of it; fix that, or set DATA_DIR to another folder.`,
    { cause: error },
  );
}

function commands(setExitCode: (code: number) => void): Command {
  const env = process.env;
  const settingsHelp = (programs: readonly Program[]) => () =>
    `\nSettings, from the environment:\n${describeSettings(programs, env)}\n\n${settingSourcesHelp}\n`;

  const program = new Command('agent-trust')
    .description(
      'The trust layer for autonomous software agents: passports, gates, decisions and a signed record of each.',
    )
    .version(packageVersion)
    .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, 'agent-trust: ')) })
    .exitOverride((end) => process.exit(end.exitCode === 0 ? exitCode.success : exitCode.usage))
    .showHelpAfterError('Run it with --help for all commands.')
    .addHelpText('after', () => `\n${exitCodesHelp()}${settingsHelp(everything)()}`);

  program
    .command('start')
    .description(
      'control plane and sidecar in one process, with an embedded PostgreSQL unless DATABASE_URL is set',
    )
    .addHelpText('after', settingsHelp(everything))
    .action(async () => {
      const settings = parseSettings(everything, env);
      const { startAllInOne } = await import('./all-in-one.ts');
      setExitCode(await run('agent-trust', settings, startAllInOne));
    });

  program
    .command('control-plane')
    .description('the control plane alone')
    .addHelpText('after', settingsHelp(['control-plane']))
    .action(async () => {
      const settings = parseSettings(['control-plane'], env);
      const { startControlPlane } = await import('../control-plane/main.ts');
      const start: typeof startControlPlane = async (...given) => {
        const running = await startControlPlane(...given);
        const { firstOwnerLink } = running;
        if (firstOwnerLink !== null) {
          process.stdout.write(`first owner: ${describeFirstOwner(firstOwnerLink, process.stdout)}\n`);
        }
        return running;
      };
      setExitCode(await run('control-plane', settings, start));
    });

  program
    .command('sidecar')
    .description('a sidecar alone, beside a resource server')
    .addHelpText('after', settingsHelp(['sidecar']))
    .action(async () => {
      const settings = parseSidecarSettings(env);
      const { startSidecar } = await import('../sidecar/main.ts');
      setExitCode(await run('sidecar', settings, startSidecar));
    });

  program
    .command('healthcheck')
    .description('check whether the program that runs here is ready; exit 0: ready, 1: not ready')
    .addArgument(
      new Argument('[program]', 'default: every program that listens here').choices(checkedPrograms),
    )
    .addHelpText('after', settingsHelp(['command']))
    .action(async (name: CheckedProgram | undefined) => {
      const { healthcheckCommand } = await import('../cli/admin/healthcheck.ts');
      const settings = commandSettings(env);
      setExitCode(await healthcheckCommand({ program: name ?? null, settings, output: process.stdout }));
    });

  program
    .command('recover')
    .description(
      'after a restore: what sidecars know and the database lacks, and with --apply take it back; exit 0: history is whole, 1: it is not',
    )
    .option('--apply', 'take back what can be had, state what is lost, and begin a new history', false)
    .option('--keep-older-gates', 'go on with the policies of gates that are in the database', false)
    .option('--profile <name>', 'a service of `agent-trust login`; default: see below')
    .addHelpText('after', () => `${apiKeyHelp}${settingsHelp(['command'])()}`)
    .action(async ({ apply, keepOlderGates, profile }: RecoverOptions) => {
      const { recoverCommand } = await import('../cli/admin/recover.ts');
      const access = await apiAccessOf(env, { profile: profile ?? null });
      const asked = { access, isApplied: apply, keepsOlderGates: keepOlderGates };
      setExitCode(await recoverCommand({ ...asked, output: process.stdout }));
    });

  const help = () => `${apiKeyHelp}${settingsHelp(['command'])()}`;
  const { stdin, stdout: output, stderr: errors } = process;
  const askDatabase: CommandHost['askDatabase'] = async (url, answerMsMax) =>
    (await import('./ask-database.ts')).askDatabase(url, answerMsMax);
  addAdminCommands(program, { env, stdin, output, errors, setExitCode, stopSignal, askDatabase, help });
  addWitnessCommand(program, {
    run: async (start) => {
      const { LOG_LEVEL, DRAIN_GRACE_MS } = parseSettings(['command', 'mcp-proxy'], env);
      const logger = standardErrorLogger({ level: LOG_LEVEL, name: 'witness' });
      setExitCode(await runUntilSignal(() => start(logger), logger, { drainGraceMs: DRAIN_GRACE_MS }));
    },
  });
  addGuardMcpCommand(program, {
    env,
    setExitCode,
    stopSignal,
    help: () => `${apiKeyHelp}${settingsHelp(['command', 'mcp-proxy'])()}`,
    service: async ({ sidecar, controlPlane }) => {
      const { LOG_LEVEL, SIDECAR_HOST, SIDECAR_PORT } = parseSettings(['command', 'mcp-proxy'], env);
      const { origin, key } = await apiAccessOf(env, { origin: controlPlane });
      return {
        sidecarUrl: sidecar ?? originOf({ host: SIDECAR_HOST, port: SIDECAR_PORT }),
        controlPlaneUrl: origin,
        apiKey: key,
        logger: standardErrorLogger({ level: LOG_LEVEL, name: 'guard-mcp' }),
      };
    },
    runUntilSignal: (start, logger) => {
      const { DRAIN_GRACE_MS } = parseSettings(['command', 'mcp-proxy'], env);
      return runUntilSignal(start, logger, { drainGraceMs: DRAIN_GRACE_MS });
    },
  });
  return program;
}

/**
 * Aborted by a signal to end, and when standard output is closed. What the command then still does is
 * bounded, and a second signal, which npm sends, does not cut it short.
 */
function stopSignal(): AbortSignal {
  const controller = new AbortController();
  const stop = () => controller.abort();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, stop);
  // Nobody reads what it prints any more.
  process.stdout.on('error', stop);
  return controller.signal;
}

/**
 * Of an error that the person who gave the command can mend; anything else is thrown on, and ends the process
 * with 1 and a stack.
 */
function explain(error: unknown): number {
  if (error instanceof SettingsError) {
    const problems = error.problems.map((problem) => `  ${problem}\n`).join('');
    process.stderr.write(`agent-trust: these settings are wrong:\n${problems}`);
    return exitCode.usage;
  }
  if (error instanceof StartError) {
    process.stderr.write(`agent-trust: ${visible(error.message)}\n`);
    return exitCode.failure;
  }
  if (!(error instanceof CommandError)) throw error;
  process.stderr.write(`agent-trust: ${error.message}\n`);
  return error.exitCode;
}

let endsWith: number = exitCode.success;
const program = commands((code) => {
  endsWith = code;
});
// Without a command commander shows the help as an error, on standard error.
if (process.argv.length === 2) program.outputHelp();
else {
  await program.parseAsync().catch((error: unknown) => {
    endsWith = explain(error);
  });
}
leaveClosedTerminal();
process.exit(endsWith);
