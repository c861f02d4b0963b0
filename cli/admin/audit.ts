import type { Command } from 'commander';
import { ApiCommands } from '../base/api-commands.ts';
import type { CommandHost } from '../base/host.ts';
import { lists } from '../base/lists.ts';
import { given } from '../base/options.ts';

interface Filter {
  readonly actor?: string;
  readonly operation?: string;
  readonly target?: string;
  readonly since?: string;
  readonly until?: string;
}

/** Adds `agent-trust audit`: who changed what. */
export function addAuditCommands(program: Command, host: CommandHost): void {
  const audit = program.command('audit').description('the audit: who changed what, signed');
  const api = new ApiCommands(host);
  api.list(
    lists(audit.command('list').description('entries, newest first'))
      .option('--actor <id>', 'of this key or person')
      .option('--operation <name>', 'such as updateGate')
      .option('--target <id>', 'about this gate, passport, …')
      .option('--since <time>', 'not older, such as 2026-11-27T00:00:00Z')
      .option('--until <time>', 'older than this'),
    {
      examples: [
        'agent-trust audit list --operation revokePassport',
        "agent-trust audit list --target gate_… --json | jq '{created_at, before, after}'",
      ],
      filter: ({ actor, operation, target, since, until }: Filter) => ({
        ...{ actor, operation, target, since, until },
      }),
      page: async ({ client }, query) => {
        const { entries: items, next_cursor } = await client.audit.list(query);
        return { items, next_cursor };
      },
      columns: {
        time: 'created_at',
        operation: 'operation',
        target: 'target',
        actor: ({ actor }) => actor.id,
        changed: ({ before, after }) => Object.keys(after ?? before ?? {}).join(' '),
        entry: 'audit_id',
      },
    },
  );
  api.run<{ since?: string }>(
    audit
      .command('export')
      .description('all entries as they are signed, for `attestations verify`')
      .option('--since <time>', 'entries that are not older'),
    {
      examples: ['agent-trust audit export > audit.jsonl'],
      work: async ({ client, options: { since } }) => {
        const { writeStream } = await import('../base/write-stream.ts');
        return writeStream((signal) => client.audit.export(given({ since }), { signal }), host);
      },
    },
  );
}
