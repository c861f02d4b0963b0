import type { Command } from 'commander';
import { webhookEvents } from '../../shared/model/webhook.ts';
import { exitCode } from '../../shared/runtime/exit-codes.ts';
import type { Environment } from '../../shared/runtime/settings.ts';
import type { TextSink } from './verify-attestations.ts';

/** Services of the composition root for the commands, whose CommandError and SettingsError it shows. */
export interface WebhookCommandHost {
  readonly env: Environment;
  readonly output: TextSink;
  setExitCode(code: number): void;
  /** Aborted when the person or the system wants the command to end. */
  stopSignal(): AbortSignal;
  /** For the end of `--help`: where the key and the settings come from. */
  readonly help: () => string;
}

interface ApiOptions {
  readonly api?: string;
}

/** Adds `agent-trust webhooks`: work with events on a developer's machine. */
export function addWebhooksCommand(program: Command, host: WebhookCommandHost): void {
  const webhooks = program
    .command('webhooks')
    .description('events on your own machine, while you build their receiver');
  const apiOption = ['--api <origin>', 'the control plane, without /v1; default: from the settings'] as const;
  const access = async ({ api }: ApiOptions) => {
    const { apiAccessOf } = await import('./api-access.ts');
    return apiAccessOf(host.env, { origin: api ?? null, keyFile: null });
  };

  webhooks
    .command('listen')
    .description('forward the events of your account to a program on this machine, until Ctrl-C')
    .requiredOption('--forward-to <url>', 'where to, such as http://localhost:3000/webhooks')
    .option('--events <names...>', 'only these events; default: all')
    .option(...apiOption)
    .addHelpText('after', host.help)
    .action(async (options: ApiOptions & { forwardTo: string; events?: string[] }) => {
      const { listenCommand } = await import('./webhooks-listen.ts');
      const { forwardTo, events = [] } = options;
      const api = await access(options);
      await listenCommand({ api, forwardTo, events, signal: host.stopSignal(), output: host.output });
      host.setExitCode(exitCode.success);
    });

  webhooks
    .command('trigger')
    .description('send an event with sample data to every webhook that subscribes to it, or to --forward-to')
    .argument('<event>', webhookEvents.join(', '))
    .option('--forward-to <url>', 'send it from here to this address, signed with AGENT_TRUST_WEBHOOK_SECRET')
    .option(...apiOption)
    .addHelpText('after', host.help)
    .action(async (event: string, options: ApiOptions & { forwardTo?: string }) => {
      const { triggerCommand } = await import('./webhooks-trigger.ts');
      const code = await triggerCommand({
        event,
        forwardTo: options.forwardTo ?? null,
        secret: host.env['AGENT_TRUST_WEBHOOK_SECRET'] || null,
        api: () => access(options),
        output: host.output,
      });
      host.setExitCode(code);
    });
}
