import type { Command } from 'commander';
import { callsApi } from '../base/api-commands.ts';
import type { CommandHost } from '../base/host.ts';
import { numberLike } from '../base/options.ts';
import type { DoctorOptions } from './doctor-options.ts';

const backupHoursDefault = 26;
const hours = numberLike(/^[1-9]\d{0,4}$/, 'It is a whole number of hours.');

/** Adds `agent-trust doctor`: what is wrong with an installation, and what to do about it. */
export function addDoctorCommand(program: Command, host: CommandHost): void {
  callsApi(
    program
      .command('doctor')
      .description('look at an installation: a line for each part, and what to do; exit 1: something fails')
      .option('--sidecar <origins...>', 'sidecars to look at; default: SIDECAR_HOST and SIDECAR_PORT')
      .option('--backup-stamp <file>', 'a file that your backup touches when it is done')
      .option('--backup-max-age <hours>', 'how old it may be', hours, backupHoursDefault),
    host,
    ['agent-trust doctor', 'agent-trust doctor --backup-stamp /var/backups/agent-trust.stamp --json'],
  ).action(async (options: DoctorOptions) => {
    const { doctor } = await import('./doctor-command.ts');
    host.setExitCode(await doctor(host, options));
  });
}
