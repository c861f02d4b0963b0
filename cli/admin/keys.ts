import type { Command } from 'commander';
import { scopes } from '../../shared/model/scopes.ts';
import { choice } from '../base/choice.ts';
import { given } from '../base/given.ts';
import type { ApiOptions, CommandHost } from '../base/host.ts';
import { asksFirst, type ListOptions, lists, printList } from '../base/lists.ts';
import { wholeSeconds } from '../base/whole-seconds.ts';
import { callsApi, withApi } from '../base/with-api.ts';

/** Adds `agent-trust keys`: API keys. */
export function addKeyCommands(program: Command, host: CommandHost): void {
  const keys = program
    .command('keys')
    .description('API keys: what programs and people may ask of the service');
  addReading(keys, host);
  addChanging(keys, host);
}

function addReading(keys: Command, host: CommandHost): void {
  callsApi(
    lists(keys.command('list').description('API keys, newest first; without the keys themselves')),
    host,
    ['agent-trust keys list'],
  ).action((options: ListOptions) =>
    withApi(host, options, async (work) => {
      await printList(work, options, {
        fetch: (query) => work.client.apiKeys.list(query),
        itemsOf: ({ items }) => items,
        columns: [
          { title: 'key', of: ({ key_id }) => key_id },
          { title: 'name', of: ({ name }) => name },
          { title: 'mode', of: ({ mode }) => mode },
          { title: 'begins', of: ({ prefix }) => prefix },
          { title: 'ends', of: ({ last4 }) => last4 },
          { title: 'last used', of: ({ last_used_at }) => last_used_at },
          { title: 'scopes', of: ({ scopes }) => scopes.join(' ') },
        ],
      });
      return undefined;
    }),
  );
  callsApi(keys.command('get').description('one API key').argument('<key>', 'key_…'), host).action(
    (id: string, options: ApiOptions) =>
      withApi(host, options, async ({ client, print }) => {
        print.item(await client.apiKeys.get(id));
        return undefined;
      }),
  );
}

interface KeyOptions extends ApiOptions {
  readonly name: string;
  readonly scope: readonly string[];
  readonly mode?: 'live' | 'test';
  readonly expiresAt?: string;
  readonly keyFile?: string;
  readonly overlap?: number;
  readonly yes?: boolean;
}

const keyFileOption = [
  '--key-file <file>',
  'a new file for the key, for its owner alone; it is not shown then',
] as const;

function addChanging(keys: Command, host: CommandHost): void {
  callsApi(
    keys
      .command('create')
      .description('create an API key; it is shown this once')
      .requiredOption('--name <text>', 'its name')
      .addOption(choice('--scope <scopes...>', 'what it may do', scopes).makeOptionMandatory())
      .addOption(choice('--mode <mode>', 'default: the mode of your key', ['live', 'test']))
      .option('--expires-at <time>', 'such as 2027-01-31T00:00:00Z')
      .option(...keyFileOption),
    host,
    ['agent-trust keys create --name sidecars --scope sidecars:connect --key-file sidecar.key'],
  ).action((options: KeyOptions) =>
    withApi(host, options, async ({ client, print }) => {
      const { keepSecret } = await import('../base/files.ts');
      const { name, scope, mode, expiresAt, keyFile } = options;
      const body = { name, scopes: scope, ...given({ mode, expires_at: expiresAt }) };
      print.item(await keepSecret(keyFile ?? null, 'key', () => client.apiKeys.create(body)));
      return undefined;
    }),
  );
  callsApi(
    asksFirst(
      keys
        .command('roll')
        .description('replace a key by a new one, which is shown this once')
        .argument('<key>', 'key_…')
        .option('--overlap <seconds>', 'how long the old one stays valid', wholeSeconds)
        .option(...keyFileOption),
    ),
    host,
    ['agent-trust keys roll key_… --overlap 3600 --key-file new.key --yes'],
  ).action((id: string, options: KeyOptions) =>
    withApi(host, options, async (work) => {
      const [{ agreed }, { keepSecret }] = await Promise.all([
        import('../base/agree.ts'),
        import('../base/files.ts'),
      ]);
      const { overlap, keyFile } = options;
      const until = overlap === undefined || overlap === 0 ? 'at once' : `in ${overlap} s`;
      if (!(await agreed(work, options, `Replace the key ${id}? The old one ends ${until}.`))) return 1;
      const roll = () => work.client.apiKeys.roll(id, given({ overlap_s: overlap }));
      work.print.item(await keepSecret(keyFile ?? null, 'key', roll));
      return undefined;
    }),
  );
  callsApi(
    asksFirst(keys.command('delete').description('end an API key at once').argument('<key>', 'key_…')),
    host,
    ['agent-trust keys delete key_… --yes'],
  ).action((id: string, options: KeyOptions) =>
    withApi(host, options, async (work) => {
      const { agreed } = await import('../base/agree.ts');
      if (!(await agreed(work, options, `Delete the key ${id}? What uses it is refused at once.`))) return 1;
      work.print.item(await work.client.apiKeys.delete(id));
      return undefined;
    }),
  );
}
