import type { Command } from 'commander';
import type { ChannelCreation, ChannelUpdate } from '../../clients/node/src/generated/api.ts';
import { channelEvents, channelKinds, channelStatuses } from '../../shared/model/channel.ts';
import { UsageError } from '../base/call-api.ts';
import { choice } from '../base/choice.ts';
import { given } from '../base/given.ts';
import type { ApiOptions, CommandHost, Work } from '../base/host.ts';
import { asksFirst, type ListOptions, lists, printList } from '../base/lists.ts';
import { wholeSeconds } from '../base/whole-seconds.ts';
import { callsApi, withApi } from '../base/with-api.ts';

/** Adds `agent-trust channels`: where people are told of approvals. */
export function addChannelCommands(program: Command, host: CommandHost): void {
  const channels = program
    .command('channels')
    .description('channels that tell people of approvals: Slack, e-mail and plain webhooks');
  addReading(channels, host);
  addChanging(channels, host);
  addTest(channels, host);
}

function addReading(channels: Command, host: CommandHost): void {
  callsApi(lists(channels.command('list').description('channels, newest first')), host, [
    'agent-trust channels list',
  ]).action((options: ListOptions) =>
    withApi(host, options, async (work) => {
      await printList(work, options, {
        fetch: (query) => work.client.channels.list(query),
        itemsOf: ({ items }) => items,
        columns: [
          { title: 'channel', of: ({ channel_id }) => channel_id },
          { title: 'name', of: ({ name }) => name },
          { title: 'kind', of: ({ kind }) => kind },
          { title: 'gate', of: ({ gate_id }) => gate_id },
          { title: 'after s', of: ({ after_s }) => String(after_s) },
          { title: 'status', of: ({ status }) => status },
          { title: 'failing since', of: ({ failing_since }) => failing_since },
          { title: 'last error', of: ({ last_error }) => last_error?.code ?? null },
        ],
      });
      return undefined;
    }),
  );
  callsApi(channels.command('get').description('one channel').argument('<channel>', 'chan_…'), host).action(
    (id: string, options: ApiOptions) =>
      withApi(host, options, async ({ client, print }) => {
        print.item(await client.channels.get(id));
        return undefined;
      }),
  );
}

interface ChannelOptions extends ApiOptions {
  readonly name?: string;
  readonly kind?: ChannelCreation['kind'];
  readonly target?: string;
  readonly targetFile?: string;
  readonly gate?: string;
  readonly after?: number;
  readonly events?: ChannelCreation['events'];
  readonly status?: 'enabled' | 'disabled';
  readonly secretFile?: string;
  readonly yes?: boolean;
}

const targetOptions = [
  ['--target <target>', 'an e-mail address, or a URL that is no secret'],
  ['--target-file <file>', 'a file with the URL, which is a secret; - reads standard input'],
] as const;

function addChanging(channels: Command, host: CommandHost): void {
  callsApi(
    channels
      .command('create')
      .description('add a channel; the secret of a webhook is shown this once')
      .requiredOption('--name <name>', 'text for people')
      .addOption(choice('--kind <kind>', 'what it is', channelKinds).makeOptionMandatory())
      .option(...targetOptions[0])
      .option(...targetOptions[1])
      .option('--gate <gate>', 'gate_…; default: all gates without channels of their own')
      .option('--after <seconds>', 'only if still pending after so long; default: 0', wholeSeconds)
      .addOption(choice('--events <names...>', 'what it is told of; default: all', channelEvents))
      .option('--secret-file <file>', 'a new file for the secret, for its owner alone; it is not shown then'),
    host,
    [
      'agent-trust channels create --name payments --kind slack --target-file slack-url',
      'agent-trust channels create --name "on call" --kind email --target on-call@example.com --after 600',
    ],
  ).action((options: ChannelOptions) =>
    withApi(host, options, async (work) => {
      const { client, print } = work;
      const { keepSecret } = await import('../base/files.ts');
      const target = await targetOf(work, options);
      if (target === undefined) throw new UsageError('Name the target, with --target or --target-file.');
      const { gate, kind } = options;
      const body = { ...bodyOf(options), target, ...given({ kind, gate_id: gate }) } as ChannelCreation;
      print.item(await keepSecret(options.secretFile ?? null, 'secret', () => client.channels.create(body)));
      return undefined;
    }),
  );
  callsApi(
    channels
      .command('update')
      .description('change a channel')
      .argument('<channel>', 'chan_…')
      .option('--name <name>', 'text for people')
      .option(...targetOptions[0])
      .option(...targetOptions[1])
      .option('--after <seconds>', 'only if still pending after so long', wholeSeconds)
      .addOption(choice('--events <names...>', 'all that it is to be told of', channelEvents))
      .addOption(choice('--status <status>', 'whether anything is sent', channelStatuses)),
    host,
    ['agent-trust channels update chan_… --status enabled'],
  ).action((id: string, options: ChannelOptions) =>
    withApi(host, options, async (work) => {
      const target = await targetOf(work, options);
      const update = { ...bodyOf(options), ...given({ target, status: options.status }) };
      work.print.item(await work.client.channels.update(id, update as ChannelUpdate));
      return undefined;
    }),
  );
  callsApi(
    asksFirst(
      channels.command('delete').description('delete a channel for good').argument('<channel>', 'chan_…'),
    ),
    host,
  ).action((id: string, options: ChannelOptions) =>
    withApi(host, options, async (work) => {
      const { agreed } = await import('../base/agree.ts');
      if (!(await agreed(work, options, `Delete the channel ${id}, and what waits for it?`))) return 1;
      work.print.item(await work.client.channels.delete(id));
      return undefined;
    }),
  );
}

const bodyOf = ({ name, after, events }: ChannelOptions) => given({ name, after_s: after, events });

async function targetOf(
  { dialogue }: Work,
  { target, targetFile }: ChannelOptions,
): Promise<string | undefined> {
  if (target !== undefined && targetFile !== undefined)
    throw new UsageError('Give --target or --target-file, not both.');
  if (targetFile === undefined) return target;
  const { readInput } = await import('../base/files.ts');
  return (await readInput(targetFile, dialogue.stdin)).trim();
}

function addTest(channels: Command, host: CommandHost): void {
  callsApi(
    channels
      .command('test')
      .description('send a test message now, and say what came of it; exit 1: it was not sent')
      .argument('<channel>', 'chan_…'),
    host,
    ['agent-trust channels test chan_…'],
  ).action((id: string, options: ApiOptions) =>
    withApi(host, options, async ({ client, print }) => {
      const result = await client.channels.test(id);
      print.item(result);
      return result.sent ? undefined : 1;
    }),
  );
}
