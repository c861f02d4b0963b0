import type { Command } from 'commander';
import { given } from './given.ts';
import type { CommandHost } from './host.ts';
import { examplesHelp } from './with-api.ts';

interface ReceiptOptions {
  readonly jwks: string;
  readonly revoked?: string;
  readonly request?: string;
}

/** Adds `agent-trust evidence`: what an outsider checks offline. */
export function addEvidenceCommands(program: Command, host: CommandHost): void {
  const evidence = program.command('evidence').description('receipts, checked offline');
  const sinks = { output: host.output, errors: host.errors };
  withKeys(
    evidence
      .command('receipt')
      .description(
        'verify a receipt; exit 0: a sidecar of the service has signed it, 5: not so, 2: a file cannot be used',
      )
      .argument('<receipt>', 'the member receipt of an answer, or the whole answer, as JSON'),
  )
    .option('--request <file>', 'the request that was asked, as JSON: the receipt has to be of it')
    .addHelpText('after', () => examplesHelp(['agent-trust evidence receipt receipt.json --jwks jwks.json']))
    .action(async (receipt: string, options: ReceiptOptions) => {
      const { verifyReceiptCommand } = await import('./convict.ts');
      const { jwks, revoked, request } = options;
      host.setExitCode(await verifyReceiptCommand({ receipt, jwks, ...given({ revoked, request }) }, sinks));
    });
  withKeys(
    evidence
      .command('convict')
      .description(
        'hold a receipt against an export; exit 0: the record is there, 5: they contradict each other, 6: undecided, 2: a file cannot be used',
      )
      .argument('<receipt>', 'the member receipt of an answer, or the whole answer, as JSON')
      .argument('<export>', 'an export of attestations (jsonl or json) that has the chain of the record'),
  )
    .addHelpText('after', () =>
      examplesHelp(['agent-trust evidence convict receipt.json records.jsonl --jwks jwks.json']),
    )
    .action(async (receipt: string, exported: string, options: ReceiptOptions) => {
      const { convictCommand } = await import('./convict.ts');
      const { jwks, revoked } = options;
      host.setExitCode(
        await convictCommand({ receipt, export: exported, jwks, ...given({ revoked }) }, sinks),
      );
    });
}

const withKeys = (command: Command): Command =>
  command
    .requiredOption('--jwks <file>', "the service's /.well-known/jwks.json, fetched by yourself")
    .option('--revoked <file>', "the service's /.well-known/sidecar-keys.json: keys that prove nothing");
