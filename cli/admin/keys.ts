import type { Command } from 'commander';
import { scopes } from '../../shared/model/scopes.ts';
import { ApiCommands } from '../base/api-commands.ts';
import type { CommandHost } from '../base/host.ts';
import { lists } from '../base/lists.ts';
import { choice, given, wholeSeconds } from '../base/options.ts';

interface KeyOptions {
  readonly name: string;
  readonly scope: readonly string[];
  readonly mode?: 'live' | 'test';
  readonly expiresAt?: string;
  readonly keyFile?: string;
  readonly overlap?: number;
}

/** Adds `agent-trust keys`: API keys. */
export function addKeyCommands(program: Command, host: CommandHost): void {
  const keys = program
    .command('keys')
    .description('API keys: what programs and people may ask of the service');
  const api = new ApiCommands(host);
  api.list(lists(keys.command('list').description('API keys, newest first; without the keys themselves')), {
    examples: ['agent-trust keys list'],
    page: ({ client }, query) => client.apiKeys.list(query),
    columns: {
      key: 'key_id',
      name: 'name',
      mode: 'mode',
      begins: 'prefix',
      ends: 'last4',
      'last used': 'last_used_at',
      scopes: ({ scopes }) => scopes.join(' '),
    },
  });
  api.show(keys.command('get').description('one API key').argument('<key>', 'key_…'), {
    of: ({ client, id }) => client.apiKeys.get(id),
  });
  addMaking(keys, api);
  api.show(keys.command('delete').description('end an API key at once').argument('<key>', 'key_…'), {
    examples: ['agent-trust keys delete key_… --yes'],
    asks: ({ id }) => `Delete the key ${id}? What uses it is refused at once.`,
    of: ({ client, id }) => client.apiKeys.delete(id),
  });
}

const keyFileOption = [
  '--key-file <file>',
  'a new file for the key, for its owner alone; it is not shown then',
] as const;

function addMaking(keys: Command, api: ApiCommands): void {
  api.show<KeyOptions>(
    keys
      .command('create')
      .description('create an API key; it is shown this once')
      .requiredOption('--name <text>', 'its name')
      .addOption(choice('--scope <scopes...>', 'what it may do', scopes).makeOptionMandatory())
      .addOption(choice('--mode <mode>', 'default: the mode of your key', ['live', 'test']))
      .option('--expires-at <time>', 'such as 2027-01-31T00:00:00Z')
      .option(...keyFileOption),
    {
      examples: ['agent-trust keys create --name sidecars --scope sidecars:connect --key-file sidecar.key'],
      of: ({ client, options, keepSecret }) => {
        const { name, scope, mode, expiresAt, keyFile } = options;
        const body = { name, scopes: scope, ...given({ mode, expires_at: expiresAt }) };
        return keepSecret(keyFile, 'key', () => client.apiKeys.create(body));
      },
    },
  );
  api.show<KeyOptions>(
    keys
      .command('roll')
      .description('replace a key by a new one, which is shown this once')
      .argument('<key>', 'key_…')
      .option('--overlap <seconds>', 'how long the old one stays valid', wholeSeconds)
      .option(...keyFileOption),
    {
      examples: ['agent-trust keys roll key_… --overlap 3600 --key-file new.key --yes'],
      asks: ({ id, options: { overlap = 0 } }) =>
        `Replace the key ${id}? The old one ends ${overlap === 0 ? 'at once' : `in ${overlap} s`}.`,
      of: ({ client, id, options: { overlap, keyFile }, keepSecret }) =>
        keepSecret(keyFile, 'key', () => client.apiKeys.roll(id, given({ overlap_s: overlap }))),
    },
  );
}
