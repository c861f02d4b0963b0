import type { Command } from 'commander';
import { type WebhookFormat, webhookEvents } from '../../shared/model/webhook.ts';
import { exitCode } from '../../shared/runtime/exit-codes.ts';
import type { CommandHost } from '../base/host.ts';
import { addEndpointCommands, formatOption } from './webhook-endpoints.ts';

interface ListenerOptions {
  readonly api?: string;
  readonly profile?: string;
}

/** Adds `agent-trust webhooks`: endpoints, and work with events on a developer's machine. */
export function addWebhooksCommand(program: Command, host: CommandHost): void {
  const webhooks = program
    .command('webhooks')
    .description(
      'webhooks, what was sent to them, and events on your own machine while you build a receiver',
    );
  addEndpointCommands(webhooks, host);
  const apiOption = ['--api <origin>', 'the control plane, without /v1; default: from the settings'] as const;
  const profileOption = ['--profile <name>', 'a service of `agent-trust login`; default: see below'] as const;
  const access = async ({ api, profile }: ListenerOptions) => {
    const { apiAccessOf } = await import('../base/api-access.ts');
    return apiAccessOf(host.env, { origin: api ?? null, profile: profile ?? null });
  };

  webhooks
    .command('listen')
    .description('forward the events of your account to a program on this machine, until Ctrl-C')
    .requiredOption('--forward-to <url>', 'where to, such as http://localhost:3000/webhooks')
    .option('--events <names...>', 'only these events; default: all')
    .addOption(formatOption().default('standard'))
    .option(...apiOption)
    .option(...profileOption)
    .addHelpText('after', host.help)
    .action(
      async (options: ListenerOptions & { forwardTo: string; events?: string[]; format: WebhookFormat }) => {
        const { listenCommand } = await import('./webhooks-listen.ts');
        const { forwardTo, events = [], format } = options;
        const api = await access(options);
        await listenCommand({
          ...{ api, forwardTo, events, format },
          ...{ signal: host.stopSignal(), output: host.output },
        });
        host.setExitCode(exitCode.success);
      },
    );

  webhooks
    .command('trigger')
    .description('send an event with sample data to every webhook that subscribes to it, or to --forward-to')
    .argument('<event>', webhookEvents.join(', '))
    .option('--forward-to <url>', 'send it from here to this address, signed with AGENT_TRUST_WEBHOOK_SECRET')
    .addOption(formatOption().default('standard'))
    .option(...apiOption)
    .option(...profileOption)
    .addHelpText('after', host.help)
    .action(
      async (event: string, options: ListenerOptions & { forwardTo?: string; format: WebhookFormat }) => {
        const { triggerCommand } = await import('./webhooks-trigger.ts');
        const code = await triggerCommand({
          event,
          forwardTo: options.forwardTo ?? null,
          format: options.format,
          secret: host.env['AGENT_TRUST_WEBHOOK_SECRET'] || null,
          api: () => access(options),
          output: host.output,
        });
        host.setExitCode(code);
      },
    );
}
