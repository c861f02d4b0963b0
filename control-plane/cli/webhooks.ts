import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Command } from 'commander';
import { parseApiKey } from '../../shared/crypto/api-key.ts';
import { webhookEvents } from '../../shared/model/webhook.ts';
import { type ApiAccess, CommandError } from './call-api.ts';
import type { TextSink } from './verify-attestations.ts';
import { listenCommand } from './webhooks-listen.ts';
import { triggerCommand } from './webhooks-trigger.ts';

/** What the composition root lends to the commands. */
export interface WebhookCommandHost {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly output: TextSink;
  readonly errors: TextSink;
  setExitCode(code: number): void;
  /** Aborted when the person or the system wants the command to end. */
  stopSignal(): AbortSignal;
}

interface ApiOptions {
  readonly api: string;
}

/** Adds `agent-trust webhooks`: work with events on a developer's machine. */
export function addWebhooksCommand(program: Command, host: WebhookCommandHost): void {
  const webhooks = program
    .command('webhooks')
    .description('events on your own machine, while you build their receiver');

  webhooks
    .command('listen')
    .description('forward the events of your account to a program on this machine, until Ctrl-C')
    .requiredOption('--forward-to <url>', 'where to, such as http://localhost:3000/webhooks')
    .option('--events <names...>', 'only these events; default: all')
    .option('--api <origin>', 'the control plane, without /v1', 'http://127.0.0.1:8080')
    .addHelpText('after', keyHelp)
    .action((options: ApiOptions & { forwardTo: string; events?: string[] }) =>
      run(host, async () => {
        const { forwardTo, events = [] } = options;
        const api = await accessOf(host, options.api);
        await listenCommand({ api, forwardTo, events, signal: host.stopSignal(), output: host.output });
        return 0;
      }),
    );

  webhooks
    .command('trigger')
    .description('send an event with sample data to every webhook that subscribes to it, or to --forward-to')
    .argument('<event>', webhookEvents.join(', '))
    .option('--forward-to <url>', 'send it from here to this address, signed with AGENT_TRUST_WEBHOOK_SECRET')
    .option('--api <origin>', 'the control plane, without /v1', 'http://127.0.0.1:8080')
    .addHelpText('after', keyHelp)
    .action((event: string, options: ApiOptions & { forwardTo?: string }) =>
      run(host, () =>
        triggerCommand({
          event,
          forwardTo: options.forwardTo ?? null,
          secret: host.env['AGENT_TRUST_WEBHOOK_SECRET'] || null,
          api: () => accessOf(host, options.api),
          output: host.output,
        }),
      ),
    );
}

const keyHelp = `
The API key, with scope webhooks:manage, is read from AGENT_TRUST_API_KEY; without it from the file that the first
start wrote, DATA_DIR/admin-api-key. Keys are no arguments: others on this machine could read them.
`;

async function run(host: WebhookCommandHost, command: () => Promise<number>): Promise<void> {
  try {
    host.setExitCode(await command());
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    host.errors.write(`agent-trust: ${error.message}\n`);
    host.setExitCode(1);
  }
}

async function accessOf({ env }: WebhookCommandHost, origin: string): Promise<ApiAccess> {
  if (!URL.canParse(origin))
    throw new CommandError(`--api must be an address, such as https://trust.example.com, not "${origin}"`);
  const file = join(env['DATA_DIR'] || './.data', 'admin-api-key');
  const key = env['AGENT_TRUST_API_KEY'] || (await readKey(file));
  if (parseApiKey(key) === null) throw new CommandError('AGENT_TRUST_API_KEY is no API key of this service.');
  return { origin: new URL(origin).origin, key };
}

async function readKey(file: string): Promise<string> {
  try {
    return (await readFile(file, 'utf8')).trim();
  } catch {
    // Whatever is wrong with the file: the way out is the same.
    throw new CommandError(`Set AGENT_TRUST_API_KEY: there is no key in ${file} either.`);
  }
}
