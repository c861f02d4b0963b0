import type { Command } from 'commander';
import { ApiCommands, examplesHelp } from '../base/api-commands.ts';
import type { CommandHost } from '../base/host.ts';
import { given } from '../base/options.ts';
import type { PackOptions } from './pack-evidence.ts';

interface ReceiptOptions {
  readonly jwks: string;
  readonly revoked?: string;
  readonly request?: string;
}

/** Adds `agent-trust evidence`: what an outsider checks offline. */
export function addEvidenceCommands(program: Command, host: CommandHost): void {
  const evidence = program.command('evidence').description('packs of evidence and receipts, checked offline');
  addPacking(evidence, host);
  addReceipts(evidence, host);
}

function addPacking(evidence: Command, host: CommandHost): void {
  new ApiCommands(host).run<Omit<PackOptions, 'out'>>(
    evidence
      .command('pack')
      .description(
        'write one zip for an outsider: records of a period, proofs, keys, verifiers and a page to read; exit 5: it is written and does not hold',
      )
      .argument('<file>', 'the zip; it must not exist')
      .requiredOption('--since <time>', 'decided then or later, such as 2026-11-01T00:00:00Z')
      .requiredOption('--until <time>', 'decided before then; not later than now')
      .option('--gate <id>', 'at this gate, gate_…; default: all')
      .option('--passport <id>', 'with this passport, pass_…; default: all')
      .option('--checkpoint <file>', 'prove by this checkpoint, of an earlier pack; default: the newest one')
      .option(
        '--log-policy <file>',
        'tlog-policy: the log and the witnesses that count; default: the log alone',
      ),
    {
      examples: [
        'agent-trust evidence pack --since 2026-11-01T00:00:00Z --until 2026-12-01T00:00:00Z november.zip',
      ],
      work: async (call) => {
        const { packEvidence } = await import('./pack-evidence.ts');
        return packEvidence(call, { ...call.options, out: call.id });
      },
    },
  );
  evidence
    .command('verify')
    .description(
      'verify an unpacked pack offline; exit 0: all of it holds, 5: something does not, 2: a file is missing',
    )
    .argument('<folder>', 'with its records.jsonl')
    .option('--jwks <file>', "the service's /.well-known/jwks.json, fetched by yourself")
    .option('--log-policy <file>', 'tlog-policy of your own: the log and the witnesses whom you believe')
    .addHelpText('after', () => examplesHelp(['agent-trust evidence verify evidence --jwks jwks.json']))
    .action(async (folder: string, { jwks, logPolicy }: { jwks?: string; logPolicy?: string }) => {
      const { verifyPackCommand } = await import('./verify-pack.ts');
      const { output, errors } = host;
      host.setExitCode(await verifyPackCommand({ folder, ...given({ jwks, logPolicy }), output, errors }));
    });
}

function addReceipts(evidence: Command, host: CommandHost): void {
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
      const { verifyReceiptCommand } = await import('../verify/convict.ts');
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
      .argument(
        '<export...>',
        'an export of attestations (jsonl or json) that has the chain of the record; archives that it goes on from before it',
      ),
  )
    .addHelpText('after', () =>
      examplesHelp(['agent-trust evidence convict receipt.json records.jsonl --jwks jwks.json']),
    )
    .action(async (receipt: string, exports: readonly string[], options: ReceiptOptions) => {
      const { convictCommand } = await import('../verify/convict.ts');
      const { jwks, revoked } = options;
      host.setExitCode(await convictCommand({ receipt, exports, jwks, ...given({ revoked }) }, sinks));
    });
}

const withKeys = (command: Command): Command =>
  command
    .requiredOption('--jwks <file>', "the service's /.well-known/jwks.json, fetched by yourself")
    .option('--revoked <file>', "the service's /.well-known/sidecar-keys.json: keys that prove nothing");
