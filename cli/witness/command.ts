import { type Command, InvalidArgumentError } from 'commander';
import type { Logger } from '../../shared/runtime/logger.ts';
import { examplesHelp } from '../base/api-commands.ts';
import type { startWitness } from './start-witness.ts';

type Started = ReturnType<typeof startWitness>;

export interface WitnessHost {
  /** Runs it until a signal ends it, and sets the exit code. */
  run(start: (logger: Logger) => Started): Promise<void>;
}

interface Options {
  readonly logs: string;
  readonly dataDir: string;
  readonly name?: string;
  readonly host: string;
  readonly port: number;
}

/** Adds `agent-trust witness`: cosigns checkpoints of other people's logs (docs/log.md). */
export function addWitnessCommand(program: Command, { run }: WitnessHost): void {
  program
    .command('witness')
    .description('a witness of transparency logs (C2SP tlog-witness): cosigns what only ever grows')
    .requiredOption('--logs <file>', 'a tlog-policy file: the logs whose checkpoints are cosigned')
    .option('--name <name>', 'of its key, such as witness.example/w1; needed at the first start')
    .option('--data-dir <folder>', 'its key and what it has cosigned, in witness.json there', './witness')
    .option('--host <address>', 'address on which it listens', '127.0.0.1')
    .option('--port <number>', 'its port; 0 takes a free one', portNumber, 8099)
    .addHelpText('after', () =>
      examplesHelp(['agent-trust witness --name witness.example/w1 --logs logs.policy --data-dir ./w1']),
    )
    .action(async ({ logs, dataDir, name, host, port }: Options) => {
      const { startWitness } = await import('./start-witness.ts');
      const { chooseEd25519 } = await import('../../shared/crypto/choose-ed25519.ts');
      const { systemClock } = await import('../../shared/runtime/clock.ts');
      const { systemRandom } = await import('../../shared/runtime/random.ts');
      await run((logger) =>
        startWitness({
          ...{ folder: dataDir, name: name ?? null, policyFile: logs, host, port, logger },
          ...{ clock: systemClock, random: systemRandom(), ed25519: chooseEd25519() },
        }),
      );
    });
}

function portNumber(text: string): number {
  const port = Number(text);
  if (!/^\d{1,5}$/.test(text) || port > 65_535) throw new InvalidArgumentError('a port is 0 to 65535.');
  return port;
}
