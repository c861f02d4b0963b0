import type { Command } from 'commander';
import { given } from '../base/given.ts';
import type { ApiOptions, CommandHost } from '../base/host.ts';
import { type ListOptions, lists, printList } from '../base/lists.ts';
import { callsApi, withApi } from '../base/with-api.ts';

interface AuditListOptions extends ListOptions {
  readonly actor?: string;
  readonly operation?: string;
  readonly target?: string;
  readonly since?: string;
  readonly until?: string;
}

/** Adds `agent-trust audit`: who changed what. */
export function addAuditCommands(program: Command, host: CommandHost): void {
  const audit = program.command('audit').description('the audit: who changed what, signed');
  callsApi(
    lists(audit.command('list').description('entries, newest first'))
      .option('--actor <id>', 'of this key or person')
      .option('--operation <name>', 'such as updateGate')
      .option('--target <id>', 'about this gate, passport, …')
      .option('--since <time>', 'not older, such as 2026-11-27T00:00:00Z')
      .option('--until <time>', 'older than this'),
    host,
    [
      'agent-trust audit list --operation revokePassport',
      "agent-trust audit list --target gate_… --json | jq '{created_at, before, after}'",
    ],
  ).action((options: AuditListOptions) =>
    withApi(host, options, async (work) => {
      const { actor, operation, target, since, until } = options;
      const filter = given({ actor, operation, target, since, until });
      await printList(work, options, {
        fetch: (query) => work.client.audit.list({ ...query, ...filter }),
        itemsOf: ({ entries }) => entries,
        columns: [
          { title: 'time', of: ({ created_at }) => created_at },
          { title: 'operation', of: (each) => each.operation },
          { title: 'target', of: (each) => each.target },
          { title: 'actor', of: (each) => each.actor.id },
          { title: 'changed', of: ({ before, after }) => Object.keys(after ?? before ?? {}).join(' ') },
          { title: 'entry', of: ({ audit_id }) => audit_id },
        ],
      });
      return undefined;
    }),
  );
  callsApi(
    audit
      .command('export')
      .description('all entries as they are signed, for `attestations verify`')
      .option('--since <time>', 'entries that are not older'),
    host,
    ['agent-trust audit export > audit.jsonl'],
  ).action((options: ApiOptions & { since?: string }) =>
    withApi(host, options, async ({ client }) => {
      const { writeStream } = await import('../base/write-stream.ts');
      const query = given({ since: options.since });
      return writeStream((signal) => client.audit.export(query, { signal }), host);
    }),
  );
}
