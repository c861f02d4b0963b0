import type { Command } from 'commander';
import type { WebhookCreation, WebhookUpdate } from '../../clients/node/src/generated/api.ts';
import { type WebhookFormat, webhookEvents, webhookFormats } from '../../shared/model/webhook.ts';
import { choice } from '../base/choice.ts';
import { given } from '../base/given.ts';
import type { ApiOptions, CommandHost } from '../base/host.ts';
import { asksFirst, type ListOptions, lists, printList } from '../base/lists.ts';
import { wholeSeconds } from '../base/whole-seconds.ts';
import { callsApi, withApi } from '../base/with-api.ts';

/** Adds to `agent-trust webhooks` the work with endpoints and their deliveries. */
export function addEndpointCommands(webhooks: Command, host: CommandHost): void {
  addReading(webhooks, host);
  addChanging(webhooks, host);
  addSecrets(webhooks, host);
  addDeliveries(webhooks, host);
}

function addReading(webhooks: Command, host: CommandHost): void {
  callsApi(lists(webhooks.command('list').description('webhooks, newest first')), host, [
    'agent-trust webhooks list',
  ]).action((options: ListOptions) =>
    withApi(host, options, async (work) => {
      await printList(work, options, {
        fetch: (query) => work.client.webhooks.list(query),
        itemsOf: ({ items }) => items,
        columns: [
          { title: 'webhook', of: ({ webhook_id }) => webhook_id },
          { title: 'url', of: ({ url }) => url },
          { title: 'status', of: ({ status }) => status },
          { title: 'failing since', of: ({ failing_since }) => failing_since },
          { title: 'events', of: ({ events }) => events.join(' ') },
        ],
      });
      return undefined;
    }),
  );
  callsApi(webhooks.command('get').description('one webhook').argument('<webhook>', 'wh_…'), host).action(
    (id: string, options: ApiOptions) =>
      withApi(host, options, async ({ client, print }) => {
        print.item(await client.webhooks.get(id));
        return undefined;
      }),
  );
}

interface EndpointOptions extends ApiOptions {
  readonly url?: string;
  readonly events?: readonly string[];
  readonly format?: WebhookFormat;
  readonly description?: string;
  readonly secretFile?: string;
  readonly overlap?: number;
  readonly yes?: boolean;
}

const bodyOf = ({ url, events, format, description }: EndpointOptions) =>
  given({ url, events, format, description });

export const formatOption = () => choice('--format <format>', 'of what is sent', webhookFormats);

function addChanging(webhooks: Command, host: CommandHost): void {
  callsApi(
    webhooks
      .command('create')
      .description('subscribe an endpoint; its secret is shown this once')
      .requiredOption('--url <url>', 'where to, over https')
      .addOption(choice('--events <names...>', 'what it gets', webhookEvents).makeOptionMandatory())
      .addOption(formatOption())
      .option('--description <text>', 'text for people')
      .option(...secretFileOption),
    host,
    [
      'agent-trust webhooks create --url https://shop.example/hook --events approval.requested --secret-file hook.secret',
    ],
  ).action((options: EndpointOptions) =>
    withApi(host, options, async ({ client, print }) => {
      const { keepSecret } = await import('../base/files.ts');
      const create = () => client.webhooks.create(bodyOf(options) as WebhookCreation);
      print.item(await keepSecret(options.secretFile ?? null, 'secret', create));
      return undefined;
    }),
  );
  callsApi(
    webhooks
      .command('update')
      .description('change a webhook')
      .argument('<webhook>', 'wh_…')
      .option('--url <url>', 'where to, over https')
      .addOption(choice('--events <names...>', 'all that it is to get', webhookEvents))
      .addOption(formatOption())
      .option('--description <text>', 'text for people')
      .addOption(choice('--status <status>', 'whether anything is sent', ['enabled', 'disabled'])),
    host,
    ['agent-trust webhooks update wh_… --status enabled'],
  ).action((id: string, options: EndpointOptions & { status?: 'enabled' | 'disabled' }) =>
    withApi(host, options, async ({ client, print }) => {
      const update = { ...bodyOf(options), ...given({ status: options.status }) };
      print.item(await client.webhooks.update(id, update as WebhookUpdate));
      return undefined;
    }),
  );
  callsApi(
    asksFirst(
      webhooks.command('delete').description('delete a webhook for good').argument('<webhook>', 'wh_…'),
    ),
    host,
  ).action((id: string, options: EndpointOptions) =>
    withApi(host, options, async (work) => {
      const { agreed } = await import('../base/agree.ts');
      if (!(await agreed(work, options, `Delete the webhook ${id}, and what waits for it?`))) return 1;
      work.print.item(await work.client.webhooks.delete(id));
      return undefined;
    }),
  );
}

const secretFileOption = [
  '--secret-file <file>',
  'a new file for the secret, for its owner alone; it is not shown then',
] as const;

function addSecrets(webhooks: Command, host: CommandHost): void {
  callsApi(
    asksFirst(
      webhooks
        .command('roll-secret')
        .description('replace the secret of a webhook by a new one, which is shown this once')
        .argument('<webhook>', 'wh_…')
        .option('--overlap <seconds>', 'how long the old one signs too', wholeSeconds)
        .option(...secretFileOption),
    ),
    host,
    ['agent-trust webhooks roll-secret wh_… --overlap 3600 --secret-file hook.secret --yes'],
  ).action((id: string, options: EndpointOptions) =>
    withApi(host, options, async (work) => {
      const [{ agreed }, { keepSecret }] = await Promise.all([
        import('../base/agree.ts'),
        import('../base/files.ts'),
      ]);
      if (!(await agreed(work, options, `Replace the secret of ${id}?`))) return 1;
      const roll = () => work.client.webhooks.rollSecret(id, given({ overlap_s: options.overlap }));
      work.print.item(await keepSecret(options.secretFile ?? null, 'secret', roll));
      return undefined;
    }),
  );
}

function addDeliveries(webhooks: Command, host: CommandHost): void {
  callsApi(
    lists(
      webhooks.command('deliveries').description('what was sent, newest first').argument('<webhook>', 'wh_…'),
    ).addOption(choice('--status <status>', 'only these', ['pending', 'succeeded', 'failed'])),
    host,
    ['agent-trust webhooks deliveries wh_… --status failed'],
  ).action((id: string, options: ListOptions & { status?: 'pending' | 'succeeded' | 'failed' }) =>
    withApi(host, options, async (work) => {
      const filter = given({ status: options.status });
      await printList(work, options, {
        fetch: (query) => work.client.webhooks.listDeliveries(id, { ...query, ...filter }),
        itemsOf: ({ items }) => items,
        columns: [
          { title: 'delivery', of: ({ delivery_id }) => delivery_id },
          { title: 'event', of: ({ event }) => event },
          { title: 'status', of: ({ status }) => status },
          { title: 'attempts', of: ({ attempt_count }) => attempt_count },
          { title: 'last answer', of: ({ attempts: [last] }) => last?.status_code ?? last?.error ?? null },
          { title: 'created', of: ({ created_at }) => created_at },
        ],
      });
      return undefined;
    }),
  );
  callsApi(
    webhooks
      .command('resend')
      .description('send a delivery again')
      .argument('<webhook>', 'wh_…')
      .argument('<delivery>', 'dlv_…'),
    host,
  ).action((id: string, delivery: string, options: ApiOptions) =>
    withApi(host, options, async ({ client, print }) => {
      print.item(await client.webhooks.resendDelivery(id, delivery));
      return undefined;
    }),
  );
}
