import type { Command } from 'commander';
import type { McpPin, McpPinListItem } from '../../clients/node/src/generated/api.ts';
import { agreed } from '../base/agree.ts';
import { choice } from '../base/choice.ts';
import { given } from '../base/given.ts';
import type { ApiOptions, CommandHost, Work } from '../base/host.ts';
import { asksFirst, type ListOptions, lists, printList } from '../base/lists.ts';
import type { Column } from '../base/print.ts';
import { callsApi, withApi } from '../base/with-api.ts';

type Status = McpPin['status'];

const columns: readonly Column<McpPinListItem>[] = [
  { title: 'pin', of: ({ pin_id }) => pin_id },
  { title: 'status', of: ({ status }) => status },
  { title: 'tool', of: ({ tool }) => tool },
  { title: 'change', of: ({ change }) => change },
  { title: 'like', of: ({ resembles }) => resembles },
  { title: 'upstream', of: ({ upstream }) => upstream },
  { title: 'gate', of: ({ gate_id }) => gate_id },
];

/** Adds `agent-trust mcp-pins`: tools of MCP servers behind guards. */
export function addMcpPinCommands(program: Command, host: CommandHost): void {
  const pins = program
    .command('mcp-pins')
    .description('tools of MCP servers behind guards, and their changes');
  callsApi(
    lists(pins.command('list').description('pinned tools, newest first'))
      .option('--gate <gate>', 'only those behind this gate')
      .addOption(choice('--status <status>', 'only these', ['pinned', 'changed', 'rejected'])),
    host,
    ['agent-trust mcp-pins list --status changed'],
  ).action((options: ListOptions & { gate?: string; status?: Status }) =>
    withApi(host, options, async (work) => {
      const filter = given({ gate_id: options.gate, status: options.status });
      await printList(work, options, {
        fetch: (query) => work.client.mcpPins.list({ ...query, ...filter }),
        itemsOf: ({ items }) => items,
        columns,
      });
      return undefined;
    }),
  );
  callsApi(
    pins.command('show').description('one tool, with what has changed').argument('<pin>', 'mpin_…'),
    host,
  ).action((id: string, options: ApiOptions) =>
    withApi(host, options, async ({ client, print }) => {
      const pin = await client.mcpPins.get(id);
      print.item(print.isJson ? pin : readable(pin));
      return undefined;
    }),
  );
  addAnswers(pins, host);
}

function addAnswers(pins: Command, host: CommandHost): void {
  const answer = (name: 'accept' | 'reject', description: string) =>
    callsApi(asksFirst(pins.command(name).description(description).argument('<pins...>', 'mpin_…')), host, [
      `agent-trust mcp-pins ${name} mpin_…`,
    ]).action((ids: readonly string[], options: ApiOptions & { yes?: boolean }) =>
      withApi(host, options, async (work) => {
        for (const id of ids) await answerOne(work, options, { name, id });
        return undefined;
      }),
    );
  answer('accept', 'show the difference, and let calls of the tool pass as it is now');
  answer('reject', 'show the difference, and keep refusing it');
}

/** What is answered is what was shown: a server that changes the tool meanwhile asks again. */
async function answerOne(
  work: Work,
  options: { readonly yes?: boolean },
  { name, id }: { readonly name: 'accept' | 'reject'; readonly id: string },
): Promise<void> {
  const { client, print } = work;
  const pin = await client.mcpPins.get(id);
  if (pin.new_hash === null) return print.say(`${id} (${pin.tool}) is pinned: nothing waits for an answer.`);
  for (const line of differenceLines(pin)) print.say(line);
  if (!(await agreed(work, options, `${name === 'accept' ? 'Accept' : 'Reject'} this?`))) return;
  const answered = await client.mcpPins[name](id, { hash: pin.new_hash });
  print.item(print.isJson ? answered : readable(answered));
}

const readable = ({ definition: _, new_definition: __, differences, ...pin }: McpPin) => ({
  ...pin,
  ...(differences.length === 0 ? {} : { differences }),
});

function differenceLines({ tool, upstream, change, resembles, differences }: McpPin): string[] {
  const like = resembles === null ? '' : ` (like ${resembles})`;
  return [
    `${tool} of ${upstream}: ${change}${like}`,
    ...differences.flatMap(({ pointer, before, after }) => [
      `  ${pointer || '/'}`,
      ...(before === null ? [] : [`    - ${before}`]),
      ...(after === null ? [] : [`    + ${after}`]),
    ]),
  ];
}
