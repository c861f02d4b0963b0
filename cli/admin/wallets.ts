import { type Command, InvalidArgumentError } from 'commander';
import type { Wallet } from '../../clients/node/src/generated/api.ts';
import { ApiCommands } from '../base/api-commands.ts';
import type { CommandHost } from '../base/host.ts';
import { lists } from '../base/lists.ts';
import { choice, given, numberLike } from '../base/options.ts';

/** Adds `agent-trust wallets`: budgets of many passports. */
export function addWalletCommands(program: Command, host: CommandHost): void {
  const wallets = program.command('wallets').description('wallets: budgets of many passports, in trees');
  const api = new ApiCommands(host);
  addReading(wallets, api);
  addMaking(wallets, api);
  const verbs = [
    ['freeze', 'block all passports of a wallet and of those below it', 'Freeze'],
    ['unfreeze', 'let a frozen wallet be used again', 'Unfreeze'],
    ['delete', 'delete an empty wallet', 'Delete'],
  ] as const;
  for (const [verb, what, word] of verbs)
    api.show(wallets.command(verb).description(what).argument('<id>', 'wal_…'), {
      examples: [`agent-trust wallets ${verb} wal_… --yes`],
      asks: ({ id }) => `${word} the wallet ${id}?`,
      of: ({ client, id }) => client.wallets[verb](id),
    });
}

function addReading(wallets: Command, api: ApiCommands): void {
  api.list(
    lists(wallets.command('list').description('wallets, newest first')).option(
      '--parent <wallet>',
      'only those below this one, wal_…',
    ),
    {
      examples: ['agent-trust wallets list'],
      filter: ({ parent }: { parent?: string }) => ({ parent_wallet_id: parent }),
      page: ({ client }, query) => client.wallets.list(query),
      columns: {
        wallet: 'wallet_id',
        name: 'name',
        status: 'status',
        share: 'share',
        limits: ({ limits }) =>
          Object.entries(limits)
            .map(([name, limit]) => `${name}=${limit}`)
            .join(' '),
        parent: 'parent_wallet_id',
      },
    },
  );
  api.show(
    wallets.command('get').description('one wallet, with what is left of it').argument('<id>', 'wal_…'),
    { of: ({ client, id }) => client.wallets.get(id) },
  );
  api.show<{ since: string; until: string }>(
    wallets
      .command('statement')
      .description('what was spent, by passport, gate and permission')
      .argument('<id>', 'wal_…')
      .requiredOption('--since <time>', 'such as 2026-11-01T00:00:00Z')
      .requiredOption('--until <time>', 'at most 32 days later'),
    {
      examples: [
        'agent-trust wallets statement wal_… --since 2026-11-01T00:00:00Z --until 2026-12-01T00:00:00Z',
      ],
      of: async ({ client, id, options: { since, until } }) => {
        const first = await client.wallets.statement(id, { since, until });
        const items = [...first.items];
        for (let page = first.next_page; page !== null; ) {
          const next = await client.wallets.statement(id, { since, until, page });
          items.push(...next.items);
          page = next.next_page;
        }
        return { ...first, items, next_page: null };
      },
    },
  );
}

interface WalletOptions {
  readonly name?: string;
  readonly parent?: string;
  readonly share?: 'pot' | 'reserved';
  readonly limit?: Readonly<Record<string, number | null>>;
  readonly alertAt?: number;
  readonly ifMatch?: string;
}

const bodyOf = ({ name, parent, share, limit, alertAt }: WalletOptions) =>
  given({
    name,
    parent_wallet_id: parent === 'none' ? null : parent,
    share,
    alert_at: alertAt,
    limits: limit as Wallet['limits'] | undefined,
  });

const fraction = numberLike(
  /^(?:0(?:\.\d{1,6})?|1(?:\.0{1,6})?)$/,
  'It is a fraction from 0 to 1, such as 0.9.',
);

const describes = (command: Command): Command =>
  command
    .option('--parent <wallet>', 'the wallet above it, wal_…, or none')
    .addOption(
      choice('--share <share>', 'draws on its parent, or has its limits set aside', ['pot', 'reserved']),
    )
    .option(
      '--limit <name=number>',
      'such as daily_usd=100 or requests_per_minute=60; none in place of a number removes it; repeatable',
      addLimit,
    )
    .option(
      '--alert-at <fraction>',
      'of each limit of money at which an event is sent, above 0 to 1',
      fraction,
    );

function addMaking(wallets: Command, api: ApiCommands): void {
  api.show<WalletOptions & { name: string }>(
    describes(
      wallets.command('create').description('make a wallet').requiredOption('--name <name>', 'for people'),
    ),
    {
      examples: ['agent-trust wallets create --name Purchasing --limit monthly_usd=5000'],
      of: ({ client, options }) => client.wallets.create({ ...bodyOf(options), name: options.name } as never),
    },
  );
  api.show<WalletOptions>(
    describes(
      wallets
        .command('update')
        .description('change or move a wallet')
        .argument('<id>', 'wal_…')
        .option('--name <name>', 'another name')
        .option('--if-match <etag>', 'only if the wallet is still as it was then'),
    ),
    {
      examples: [
        'agent-trust wallets update wal_… --limit daily_usd=50 --alert-at 0.9',
        'agent-trust wallets update wal_… --parent wal_…',
      ],
      of: ({ client, id, options }) =>
        client.wallets.update(id, bodyOf(options) as never, given({ ifMatch: options.ifMatch })),
    },
  );
  api.show(
    wallets
      .command('assign')
      .description('put a passport into a wallet, or out of any')
      .argument('<passport>', 'pass_…')
      .argument('<wallet>', 'wal_…, or none'),
    {
      examples: ['agent-trust wallets assign pass_… wal_…'],
      of: ({ client, id, args: [, wallet = ''] }) =>
        client.passports.setWallet(id, { wallet_id: wallet === 'none' ? null : wallet }),
    },
  );
}

function addLimit(text: string, before: WalletOptions['limit'] = {}): WalletOptions['limit'] {
  const [, name, number] = /^([a-z_]+)=(none|\d{1,10}(?:\.\d{1,6})?)$/.exec(text) ?? [];
  if (name === undefined || number === undefined)
    throw new InvalidArgumentError('It is a name and a number, such as daily_usd=100.');
  return { ...before, [name]: number === 'none' ? null : Number(number) };
}
