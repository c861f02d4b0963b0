import type { Command } from 'commander';
import type { WebhookCreation, WebhookUpdate } from '../../clients/node/src/generated/api.ts';
import { type WebhookFormat, webhookEvents, webhookFormats } from '../../shared/model/webhook.ts';
import { ApiCommands } from '../base/api-commands.ts';
import type { CommandHost } from '../base/host.ts';
import { lists } from '../base/lists.ts';
import { choice, given, wholeSeconds } from '../base/options.ts';

/** Adds to `agent-trust webhooks` the work with endpoints and their deliveries. */
export function addEndpointCommands(webhooks: Command, host: CommandHost): void {
  const api = new ApiCommands(host);
  api.list(lists(webhooks.command('list').description('webhooks, newest first')), {
    examples: ['agent-trust webhooks list'],
    page: ({ client }, query) => client.webhooks.list(query),
    columns: {
      webhook: 'webhook_id',
      url: 'url',
      status: 'status',
      'failing since': 'failing_since',
      events: ({ events }) => events.join(' '),
    },
  });
  api.show(webhooks.command('get').description('one webhook').argument('<webhook>', 'wh_…'), {
    of: ({ client, id }) => client.webhooks.get(id),
  });
  addChanging(webhooks, api);
  addDeliveries(webhooks, api);
}

interface EndpointOptions {
  readonly url?: string;
  readonly events?: readonly string[];
  readonly format?: WebhookFormat;
  readonly description?: string;
  readonly status?: 'enabled' | 'disabled';
  readonly secretFile?: string;
  readonly overlap?: number;
}

const bodyOf = ({ url, events, format, description, status }: EndpointOptions) =>
  given({ url, events, format, description, status });

export const formatOption = () => choice('--format <format>', 'of what is sent', webhookFormats);

const secretFileOption = [
  '--secret-file <file>',
  'a new file for the secret, for its owner alone; it is not shown then',
] as const;

function addChanging(webhooks: Command, api: ApiCommands): void {
  api.show<EndpointOptions>(
    webhooks
      .command('create')
      .description('subscribe an endpoint; its secret is shown this once')
      .requiredOption('--url <url>', 'where to, over https')
      .addOption(choice('--events <names...>', 'what it gets', webhookEvents).makeOptionMandatory())
      .addOption(formatOption())
      .option('--description <text>', 'text for people')
      .option(...secretFileOption),
    {
      examples: [
        'agent-trust webhooks create --url https://shop.example/hook --events approval.requested --secret-file hook.secret',
      ],
      of: ({ client, options, keepSecret }) =>
        keepSecret(options.secretFile, 'secret', () =>
          client.webhooks.create(bodyOf(options) as WebhookCreation),
        ),
    },
  );
  api.show<EndpointOptions>(
    webhooks
      .command('update')
      .description('change a webhook')
      .argument('<webhook>', 'wh_…')
      .option('--url <url>', 'where to, over https')
      .addOption(choice('--events <names...>', 'all that it is to get', webhookEvents))
      .addOption(formatOption())
      .option('--description <text>', 'text for people')
      .addOption(choice('--status <status>', 'whether anything is sent', ['enabled', 'disabled'])),
    {
      examples: ['agent-trust webhooks update wh_… --status enabled'],
      of: ({ client, id, options }) => client.webhooks.update(id, bodyOf(options) as WebhookUpdate),
    },
  );
  api.show(
    webhooks.command('delete').description('delete a webhook for good').argument('<webhook>', 'wh_…'),
    {
      asks: ({ id }) => `Delete the webhook ${id}, and what waits for it?`,
      of: ({ client, id }) => client.webhooks.delete(id),
    },
  );
  api.show<EndpointOptions>(
    webhooks
      .command('roll-secret')
      .description('replace the secret of a webhook by a new one, which is shown this once')
      .argument('<webhook>', 'wh_…')
      .option('--overlap <seconds>', 'how long the old one signs too', wholeSeconds)
      .option(...secretFileOption),
    {
      examples: ['agent-trust webhooks roll-secret wh_… --overlap 3600 --secret-file hook.secret --yes'],
      asks: ({ id }) => `Replace the secret of ${id}?`,
      of: ({ client, id, options: { secretFile, overlap }, keepSecret }) =>
        keepSecret(secretFile, 'secret', () => client.webhooks.rollSecret(id, given({ overlap_s: overlap }))),
    },
  );
}

function addDeliveries(webhooks: Command, api: ApiCommands): void {
  api.list(
    lists(
      webhooks.command('deliveries').description('what was sent, newest first').argument('<webhook>', 'wh_…'),
    ).addOption(choice('--status <status>', 'only these', ['pending', 'succeeded', 'failed'])),
    {
      examples: ['agent-trust webhooks deliveries wh_… --status failed'],
      filter: ({ status }: { status?: 'pending' | 'succeeded' | 'failed' }) => ({ status }),
      page: ({ client, id }, query) => client.webhooks.listDeliveries(id, query),
      columns: {
        delivery: 'delivery_id',
        event: 'event',
        status: 'status',
        attempts: 'attempt_count',
        'last answer': ({ attempts: [last] }) => last?.status_code ?? last?.error,
        created: 'created_at',
      },
    },
  );
  api.show(
    webhooks
      .command('resend')
      .description('send a delivery again')
      .argument('<webhook>', 'wh_…')
      .argument('<delivery>', 'dlv_…'),
    { of: ({ client, id, args: [, delivery = ''] }) => client.webhooks.resendDelivery(id, delivery) },
  );
}
