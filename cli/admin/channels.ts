import type { Command } from 'commander';
import type { ChannelCreation, ChannelUpdate } from '../../clients/node/src/generated/api.ts';
import { channelEvents, channelKinds, channelStatuses } from '../../shared/model/channel.ts';
import { ApiCommands } from '../base/api-commands.ts';
import { UsageError } from '../base/call-api.ts';
import type { CommandHost, Work } from '../base/host.ts';
import { lists } from '../base/lists.ts';
import { choice, given, wholeSeconds } from '../base/options.ts';

interface ChannelOptions {
  readonly name?: string;
  readonly kind?: ChannelCreation['kind'];
  readonly target?: string;
  readonly targetFile?: string;
  readonly gate?: string;
  readonly after?: number;
  readonly events?: ChannelCreation['events'];
  readonly status?: 'enabled' | 'disabled';
  readonly secretFile?: string;
}

/** Adds `agent-trust channels`: where people are told of approvals. */
export function addChannelCommands(program: Command, host: CommandHost): void {
  const channels = program
    .command('channels')
    .description('channels that tell people of approvals: Slack, e-mail and plain webhooks');
  const api = new ApiCommands(host);
  api.list(lists(channels.command('list').description('channels, newest first')), {
    examples: ['agent-trust channels list'],
    page: ({ client }, query) => client.channels.list(query),
    columns: {
      channel: 'channel_id',
      name: 'name',
      kind: 'kind',
      gate: 'gate_id',
      'after s': 'after_s',
      status: 'status',
      'failing since': 'failing_since',
      'last error': ({ last_error }) => last_error?.code,
    },
  });
  api.show(channels.command('get').description('one channel').argument('<channel>', 'chan_…'), {
    of: ({ client, id }) => client.channels.get(id),
  });
  addChanging(channels, api);
  api.show(
    channels.command('delete').description('delete a channel for good').argument('<channel>', 'chan_…'),
    {
      asks: ({ id }) => `Delete the channel ${id}, and what waits for it?`,
      of: ({ client, id }) => client.channels.delete(id),
    },
  );
  api.run(
    channels
      .command('test')
      .description('send a test message now, and say what came of it; exit 1: it was not sent')
      .argument('<channel>', 'chan_…'),
    {
      examples: ['agent-trust channels test chan_…'],
      work: async ({ client, print, id }) => {
        const result = await client.channels.test(id);
        print.item(result);
        return result.sent ? undefined : 1;
      },
    },
  );
}

const targetOptions = (command: Command): Command =>
  command
    .option('--target <target>', 'an e-mail address, or a URL that is no secret')
    .option('--target-file <file>', 'a file with the URL, which is a secret; - reads standard input');

function addChanging(channels: Command, api: ApiCommands): void {
  api.show<ChannelOptions>(
    targetOptions(
      channels
        .command('create')
        .description('add a channel; the secret of a webhook is shown this once')
        .requiredOption('--name <name>', 'text for people')
        .addOption(choice('--kind <kind>', 'what it is', channelKinds).makeOptionMandatory()),
    )
      .option('--gate <gate>', 'gate_…; default: all gates without channels of their own')
      .option('--after <seconds>', 'only if still pending after so long; default: 0', wholeSeconds)
      .addOption(choice('--events <names...>', 'what it is told of; default: all', channelEvents))
      .option('--secret-file <file>', 'a new file for the secret, for its owner alone; it is not shown then'),
    {
      examples: [
        'agent-trust channels create --name payments --kind slack --target-file slack-url',
        'agent-trust channels create --name "on call" --kind email --target on-call@example.com --after 600',
      ],
      of: async ({ client, options, dialogue, keepSecret }) => {
        const target = await targetOf(dialogue, options);
        if (target === undefined) throw new UsageError('Name the target, with --target or --target-file.');
        const { gate, kind, secretFile } = options;
        const body = { ...bodyOf(options), target, ...given({ kind, gate_id: gate }) } as ChannelCreation;
        return keepSecret(secretFile, 'secret', () => client.channels.create(body));
      },
    },
  );
  api.show<ChannelOptions>(
    targetOptions(
      channels
        .command('update')
        .description('change a channel')
        .argument('<channel>', 'chan_…')
        .option('--name <name>', 'text for people'),
    )
      .option('--after <seconds>', 'only if still pending after so long', wholeSeconds)
      .addOption(choice('--events <names...>', 'all that it is to be told of', channelEvents))
      .addOption(choice('--status <status>', 'whether anything is sent', channelStatuses)),
    {
      examples: ['agent-trust channels update chan_… --status enabled'],
      of: async ({ client, id, options, dialogue }) => {
        const target = await targetOf(dialogue, options);
        const update = { ...bodyOf(options), ...given({ target, status: options.status }) };
        return client.channels.update(id, update as ChannelUpdate);
      },
    },
  );
}

const bodyOf = ({ name, after, events }: ChannelOptions) => given({ name, after_s: after, events });

async function targetOf(
  { stdin }: Work['dialogue'],
  { target, targetFile }: ChannelOptions,
): Promise<string | undefined> {
  if (target !== undefined && targetFile !== undefined)
    throw new UsageError('Give --target or --target-file, not both.');
  if (targetFile === undefined) return target;
  const { readInput } = await import('../base/files.ts');
  return (await readInput(targetFile, stdin)).trim();
}
