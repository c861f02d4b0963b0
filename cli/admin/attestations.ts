import { type Command, Option } from 'commander';
import type { ExportFormat } from '../../shared/attestation/export-formats.ts';
import { ApiCommands, examplesHelp, withApi } from '../base/api-commands.ts';
import { UsageError } from '../base/call-api.ts';
import type { ApiOptions, CommandHost } from '../base/host.ts';
import { lists } from '../base/lists.ts';
import { choice, given } from '../base/options.ts';
import { recordColumns } from './record-columns.ts';

const exportFormatNames = ['jsonl', 'json', 'csv', 'dsse', 'ocsf'] as const satisfies ExportFormat[];

/** Filters of records. */
interface RecordFilter {
  readonly gate?: string;
  readonly passport?: string;
  readonly agent?: string;
  readonly decision?: 'PERMIT' | 'SUSPEND' | 'BLOCK';
  readonly reason?: string;
  readonly permission?: string;
}

/** Adds `agent-trust attestations`: signed records. */
export function addAttestationCommands(program: Command, host: CommandHost): void {
  const attestations = program.command('attestations').description('signed records of decisions');
  const api = new ApiCommands(host);
  addReading(attestations, api);
  addVerifying(attestations, host);
  addReplaying(attestations, host);
  addRetention(attestations, api);
  addArchiving(attestations, host);
}

const filtered = (command: Command): Command =>
  command
    .option('--gate <id>', 'of this gate, gate_…')
    .option('--passport <id>', 'of this passport, pass_…')
    .option('--agent <id>', 'of this agent')
    .addOption(choice('--decision <decision>', 'only these', ['PERMIT', 'SUSPEND', 'BLOCK']))
    .option('--reason <reason>', 'such as spend_limit_exceeded')
    .option('--permission <key>', 'such as orders:create');

const filterOf = (options: RecordFilter) =>
  given({
    gate_id: options.gate,
    passport_id: options.passport,
    agent_id: options.agent,
    decision: options.decision,
    reason: options.reason as never,
    permission_key: options.permission,
  });

function addReading(attestations: Command, api: ApiCommands): void {
  api.list(
    lists(filtered(attestations.command('list').description('records, newest first')))
      .option('--since <time>', 'not older, such as 2026-11-27T00:00:00Z')
      .option('--until <time>', 'older than this'),
    {
      examples: [
        'agent-trust attestations list --gate gate_… --decision BLOCK',
        'agent-trust attestations list --all --json',
      ],
      filter: (options: RecordFilter & { since?: string; until?: string }) => ({
        ...{ ...filterOf(options), since: options.since, until: options.until },
      }),
      page: async ({ client }, query) => {
        const { attestations: items, next_cursor } = await client.attestations.list(query);
        return { items, next_cursor };
      },
      columns: recordColumns,
    },
  );
  api.show(attestations.command('get').description('one record').argument('<record>', 'att_…'), {
    of: ({ client, id }) => client.attestations.get(id),
  });
  api.show(
    attestations
      .command('facts')
      .description('values that the decision read, with what opens their commitments; in the audit')
      .argument('<record>', 'att_…'),
    { of: ({ client, id }) => client.attestations.getFacts(id) },
  );
  api.run<{ format: ExportFormat; since?: string; facts?: true }>(
    attestations
      .command('export')
      .description(
        'all records: jsonl and json for `attestations verify`, csv for spreadsheets, dsse and ocsf for what collects them',
      )
      .addOption(choice('--format <format>', 'how', exportFormatNames).default('jsonl'))
      .option('--since <time>', 'each chain from its first record that is not older')
      .option('--facts', 'also the values that decisions read, of jsonl and json; in the audit'),
    {
      examples: [
        'agent-trust attestations export > records.jsonl',
        'agent-trust attestations export --facts > records-with-facts.jsonl',
      ],
      work: async ({ client, host, options: { format, since, facts } }) => {
        const { writeStream } = await import('../base/write-stream.ts');
        const query = { format, ...given({ since, facts: facts && ('1' as const) }) };
        return writeStream((signal) => client.attestations.export(query, { signal }), host);
      },
    },
  );
  api.run<RecordFilter & { since?: string }>(
    filtered(attestations.command('tail').description('new records as they arrive, until Ctrl-C')).option(
      '--since <time>',
      'begin with records that are not older; default: with new ones',
    ),
    {
      examples: [
        'agent-trust attestations tail',
        "agent-trust attestations tail --gate gate_… --json | jq -c '[.decision, .reason]'",
      ],
      work: async (call) => {
        const { tailAttestations } = await import('./tail-attestations.ts');
        const { options, host } = call;
        return tailAttestations(call, {
          filter: filterOf(options),
          since: options.since ?? null,
          signal: host.stopSignal(),
        });
      },
    },
  );
}

interface VerifyOptions {
  readonly jwks: string;
  readonly proof?: readonly string[];
  readonly logPolicy?: string;
}

function proofsOf({ proof: files, logPolicy: policy }: VerifyOptions) {
  if (policy !== undefined) return { proofs: { files: files ?? [], policy } };
  if (files !== undefined) throw new UsageError('--proof needs --log-policy: a proof counts by a policy.');
  return {};
}

function addVerifying(attestations: Command, host: CommandHost): void {
  attestations
    .command('verify')
    .description(
      'verify exports (jsonl or json) and archives offline; exit 0: everything verifies, 5: something does not, 2: a file is missing',
    )
    .argument('<files...>', 'the export; - reads standard input. Archives of the same chains go before it')
    .requiredOption('--jwks <file>', "the service's /.well-known/jwks.json, fetched by yourself")
    .option('--proof <files...>', 'proofs of `attestations proof`: what they prove must be in the export')
    .option(
      '--log-policy <file>',
      'tlog-policy: the logs and witnesses by which proofs count, also those in the file',
    )
    .addHelpText('after', () =>
      examplesHelp(['agent-trust attestations verify records.jsonl --jwks jwks.json']),
    )
    .action(async (files: string[], options: VerifyOptions) => {
      const { verifyAttestationsCommand } = await import('../verify/verify-attestations.ts');
      host.setExitCode(
        await verifyAttestationsCommand({
          files,
          jwks: options.jwks,
          ...proofsOf(options),
          output: host.output,
          errors: host.errors,
        }),
      );
    });
}

function addReplaying(attestations: Command, host: CommandHost): void {
  attestations
    .command('replay')
    .description(
      'verify exports, and decide each record again from them alone; exit 0: nothing contradicts them, 5: something does, 2: a file is missing',
    )
    .argument('<files...>', 'the export; archives of the same chains go before it')
    .requiredOption('--jwks <file>', "the service's /.well-known/jwks.json, fetched by yourself")
    .option('--json', 'the report as JSON')
    .addHelpText('after', () =>
      examplesHelp(['agent-trust attestations replay records.jsonl --jwks jwks.json']),
    )
    .action(async (files: string[], { jwks, json = false }: { jwks: string; json?: boolean }) => {
      const { replayAttestationsCommand } = await import('../verify/replay-attestations.ts');
      const { output, errors } = host;
      host.setExitCode(await replayAttestationsCommand({ files, jwks, isJson: json, output, errors }));
    });
}

function addRetention(attestations: Command, api: ApiCommands): void {
  api.show<{ days?: number; none?: true; factsDays?: number; factsNone?: true }>(
    attestations
      .command('retention')
      .description('how long the account keeps records in the database; without an option: show it')
      .addOption(
        new Option('--days <days>', 'then an archive takes them, and lists lack them').argParser(Number),
      )
      .addOption(new Option('--none', 'as long as the operator keeps records').conflicts('days'))
      .addOption(
        new Option('--facts-days <days>', 'then values that decisions read are removed').argParser(Number),
      )
      .addOption(new Option('--facts-none', 'as long as their records').conflicts('factsDays')),
    {
      examples: [
        'agent-trust attestations retention',
        'agent-trust attestations retention --days 400 --facts-days 30',
      ],
      of: async ({ client, options: { days, none, factsDays, factsNone } }) => {
        const now = await client.attestations.getRetention();
        if ([days, none, factsDays, factsNone].every((each) => each === undefined)) return now;
        return client.attestations.setRetention({
          days: days ?? (none === true ? null : now.days),
          ...(factsDays !== undefined && { facts_days: factsDays }),
          ...(factsNone === true && { facts_days: null }),
        });
      },
    },
  );
}

interface ArchiveOptions extends ApiOptions {
  readonly before?: string;
  readonly due?: true;
  readonly to: string;
  readonly apply: boolean;
}

function addArchiving(attestations: Command, host: CommandHost): void {
  attestations
    .command('archive')
    .description(
      'what can leave the database; with --apply it is written to verified files and dropped. For the operator',
    )
    .addOption(
      new Option(
        '--before <month>',
        'records of all accounts that arrived before this month, such as 2026-09',
      ).conflicts('due'),
    )
    .option('--due', 'of each account the records that it no longer keeps (see `attestations retention`)')
    .requiredOption('--to <folder>', 'where the files are written; nothing else may change it')
    .option('--apply', 'write and verify the files, then drop the records', false)
    .option('--profile <name>', 'a service of `agent-trust login`; default: see below')
    .addHelpText('after', () => host.help())
    .action((options: ArchiveOptions) =>
      withApi(host, options, async ({ access }) => {
        const { before, to: folder, apply: isApplied } = options;
        const target = { access, folder, isApplied, output: host.output };
        if (options.due === true) {
          const { archiveDueCommand } = await import('../evidence/archive-due.ts');
          return archiveDueCommand(target);
        }
        if (before === undefined) throw new UsageError('Name a month with --before, or take --due.');
        const { archiveCommand } = await import('../evidence/archive-attestations.ts');
        return archiveCommand({ ...target, before });
      }),
    );
}
