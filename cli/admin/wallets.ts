import { type Command, InvalidArgumentError } from 'commander';
import type { Wallet } from '../../clients/node/src/generated/api.ts';
import { choice } from '../base/choice.ts';
import { given } from '../base/given.ts';
import type { ApiOptions, CommandHost } from '../base/host.ts';
import { asksFirst, type ListOptions, lists, printList } from '../base/lists.ts';
import type { Column } from '../base/print.ts';
import { callsApi, withApi } from '../base/with-api.ts';

/** Adds `agent-trust wallets`: budgets of many passports. */
export function addWalletCommands(program: Command, host: CommandHost): void {
  const wallets = program.command('wallets').description('wallets: budgets of many passports, in trees');
  addReading(wallets, host);
  addMaking(wallets, host);
  addChanging(wallets, host);
}

const columns: readonly Column<Wallet>[] = [
  { title: 'wallet', of: ({ wallet_id }) => wallet_id },
  { title: 'name', of: ({ name }) => name },
  { title: 'status', of: ({ status }) => status },
  { title: 'share', of: ({ share }) => share },
  {
    title: 'limits',
    of: ({ limits }) =>
      Object.entries(limits)
        .map(([name, limit]) => `${name}=${limit}`)
        .join(' '),
  },
  { title: 'parent', of: ({ parent_wallet_id }) => parent_wallet_id },
];

function addReading(wallets: Command, host: CommandHost): void {
  callsApi(
    lists(wallets.command('list').description('wallets, newest first')).option(
      '--parent <wallet>',
      'only those below this one, wal_…',
    ),
    host,
    ['agent-trust wallets list'],
  ).action((options: ListOptions & { parent?: string }) =>
    withApi(host, options, async (work) => {
      const filter = given({ parent_wallet_id: options.parent });
      await printList(work, options, {
        fetch: (query) => work.client.wallets.list({ ...query, ...filter }),
        itemsOf: ({ items }) => items,
        columns,
      });
      return undefined;
    }),
  );
  callsApi(
    wallets.command('get').description('one wallet, with what is left of it').argument('<id>', 'wal_…'),
    host,
  ).action((id: string, options: ApiOptions) =>
    withApi(host, options, async ({ client, print }) => {
      print.item(await client.wallets.get(id));
      return undefined;
    }),
  );
  callsApi(
    wallets
      .command('statement')
      .description('what was spent, by passport, gate and permission')
      .argument('<id>', 'wal_…')
      .requiredOption('--since <time>', 'such as 2026-11-01T00:00:00Z')
      .requiredOption('--until <time>', 'at most 32 days later'),
    host,
    ['agent-trust wallets statement wal_… --since 2026-11-01T00:00:00Z --until 2026-12-01T00:00:00Z'],
  ).action((id: string, options: ApiOptions & { since: string; until: string }) =>
    withApi(host, options, async ({ client, print }) => {
      const { since, until } = options;
      const first = await client.wallets.statement(id, { since, until });
      const items = [...first.items];
      for (let page = first.next_page; page !== null; ) {
        const next = await client.wallets.statement(id, { since, until, page });
        items.push(...next.items);
        page = next.next_page;
      }
      print.item({ ...first, items, next_page: null });
      return undefined;
    }),
  );
}

interface WalletOptions extends ApiOptions {
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

function addMaking(wallets: Command, host: CommandHost): void {
  callsApi(
    describes(
      wallets.command('create').description('make a wallet').requiredOption('--name <name>', 'for people'),
    ),
    host,
    ['agent-trust wallets create --name Purchasing --limit monthly_usd=5000'],
  ).action((options: WalletOptions & { name: string }) =>
    withApi(host, options, async ({ client, print }) => {
      print.item(await client.wallets.create({ ...bodyOf(options), name: options.name } as never));
      return undefined;
    }),
  );
  callsApi(
    describes(
      wallets
        .command('update')
        .description('change or move a wallet')
        .argument('<id>', 'wal_…')
        .option('--name <name>', 'another name')
        .option('--if-match <etag>', 'only if the wallet is still as it was then'),
    ),
    host,
    [
      'agent-trust wallets update wal_… --limit daily_usd=50 --alert-at 0.9',
      'agent-trust wallets update wal_… --parent wal_…',
    ],
  ).action((id: string, options: WalletOptions) =>
    withApi(host, options, async ({ client, print }) => {
      const condition = given({ ifMatch: options.ifMatch });
      print.item(await client.wallets.update(id, bodyOf(options) as never, condition));
      return undefined;
    }),
  );
  callsApi(
    wallets
      .command('assign')
      .description('put a passport into a wallet, or out of any')
      .argument('<passport>', 'pass_…')
      .argument('<wallet>', 'wal_…, or none'),
    host,
    ['agent-trust wallets assign pass_… wal_…'],
  ).action((passport: string, wallet: string, options: ApiOptions) =>
    withApi(host, options, async ({ client, print }) => {
      const body = { wallet_id: wallet === 'none' ? null : wallet };
      print.item(await client.passports.setWallet(passport, body));
      return undefined;
    }),
  );
}

function addChanging(wallets: Command, host: CommandHost): void {
  const verbs = [
    ['freeze', 'block all passports of a wallet and of those below it', 'Freeze'],
    ['unfreeze', 'let a frozen wallet be used again', 'Unfreeze'],
    ['delete', 'delete an empty wallet', 'Delete'],
  ] as const;
  for (const [verb, what, word] of verbs)
    callsApi(asksFirst(wallets.command(verb).description(what).argument('<id>', 'wal_…')), host, [
      `agent-trust wallets ${verb} wal_… --yes`,
    ]).action((id: string, options: ApiOptions & { yes?: boolean }) =>
      withApi(host, options, async (work) => {
        const { agreed } = await import('../base/agree.ts');
        if (!(await agreed(work, options, `${word} the wallet ${id}?`))) return 1;
        work.print.item(await work.client.wallets[verb](id));
        return undefined;
      }),
    );
}

function fraction(text: string): number {
  if (/^(?:0(?:\.\d{1,6})?|1(?:\.0{1,6})?)$/.test(text)) return Number(text);
  throw new InvalidArgumentError('It is a fraction from 0 to 1, such as 0.9.');
}

function addLimit(text: string, before: WalletOptions['limit'] = {}): WalletOptions['limit'] {
  const [, name, number] = /^([a-z_]+)=(none|\d{1,10}(?:\.\d{1,6})?)$/.exec(text) ?? [];
  if (name === undefined || number === undefined)
    throw new InvalidArgumentError('It is a name and a number, such as daily_usd=100.');
  return { ...before, [name]: number === 'none' ? null : Number(number) };
}
