import type { Command } from 'commander';
import { examplesHelp } from '../base/api-commands.ts';
import type { CommandHost } from '../base/host.ts';
import type { LoginOptions } from '../base/log-in.ts';

/** Adds `login`, `logout` and `profiles`: services and keys under names. */
export function addLoginCommands(program: Command, host: CommandHost): void {
  program
    .command('login')
    .description('store a service and an API key under a name, after asking the service about the key')
    .option('--url <url>', 'the control plane, without /v1; default: AGENT_TRUST_URL, else from the settings')
    .option('--profile <name>', 'the name', 'default')
    .option(
      '--key-file <file>',
      'a file that holds the key; default: AGENT_TRUST_API_KEY, else standard input',
    )
    .option('--json', 'for scripts: JSON')
    .addHelpText('after', () => `${examplesHelp(loginExamples)}${whereProfilesAre}`)
    .action(async (options: LoginOptions) => {
      const { login } = await import('../base/log-in.ts');
      await login(host, options);
    });
  program
    .command('logout')
    .description('forget a profile and its key; the key itself stays valid: see `keys delete`')
    .argument('[profile]', 'default: the current one')
    .action(async (name: string | undefined) => {
      const { logout } = await import('../base/log-in.ts');
      await logout(host, name ?? null);
    });
  const profiles = program
    .command('profiles')
    .description('the services that `agent-trust login` has stored');
  profiles
    .command('list')
    .description('names and services; no keys')
    .option('--json', 'for scripts: JSON, one object a line')
    .action(async (options: { json?: boolean }) => {
      const { listProfiles } = await import('../base/log-in.ts');
      await listProfiles(host, options.json === true);
    });
  profiles
    .command('use')
    .description('the profile of commands that name none')
    .argument('<profile>')
    .action(async (name: string) => {
      const { useProfile } = await import('../base/log-in.ts');
      await useProfile(host, name);
    });
}

const loginExamples = [
  'agent-trust login --url https://trust.example.com',
  'agent-trust login --url https://trust.example.com --profile prod --key-file ./prod.key',
  'pass show trust/prod | agent-trust login --url https://trust.example.com --profile prod',
];
const whereProfilesAre = `
Profiles are in $XDG_CONFIG_HOME/agent-trust/config.json, else ~/.config/agent-trust/config.json, for their owner
alone. The key is typed without an echo, and never shown again.
`;
