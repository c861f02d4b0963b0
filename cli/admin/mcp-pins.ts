import type { Command } from 'commander';
import type { McpPin } from '../../clients/node/src/generated/api.ts';
import { agreed } from '../base/agree.ts';
import { ApiCommands, asksFirst } from '../base/api-commands.ts';
import type { CommandHost, Work } from '../base/host.ts';
import { lists } from '../base/lists.ts';
import { choice } from '../base/options.ts';

/** Adds `agent-trust mcp-pins`: tools of MCP servers behind guards. */
export function addMcpPinCommands(program: Command, host: CommandHost): void {
  const pins = program
    .command('mcp-pins')
    .description('tools of MCP servers behind guards, and their changes');
  const api = new ApiCommands(host);
  api.list(
    lists(pins.command('list').description('pinned tools, newest first'))
      .option('--gate <gate>', 'only those behind this gate')
      .addOption(choice('--status <status>', 'only these', ['pinned', 'changed', 'rejected'])),
    {
      examples: ['agent-trust mcp-pins list --status changed'],
      filter: ({ gate, status }: { gate?: string; status?: McpPin['status'] }) => ({ gate_id: gate, status }),
      page: ({ client }, query) => client.mcpPins.list(query),
      columns: {
        pin: 'pin_id',
        status: 'status',
        tool: 'tool',
        change: 'change',
        like: 'resembles',
        upstream: 'upstream',
        gate: 'gate_id',
      },
    },
  );
  api.show(pins.command('show').description('one tool, with what has changed').argument('<pin>', 'mpin_…'), {
    of: async ({ client, print, id }) => {
      const pin = await client.mcpPins.get(id);
      return print.isJson ? pin : readable(pin);
    },
  });
  const answer = (name: 'accept' | 'reject', description: string) =>
    api.run<{ yes?: boolean }>(
      asksFirst(pins.command(name).description(description).argument('<pins...>', 'mpin_…')),
      {
        examples: [`agent-trust mcp-pins ${name} mpin_…`],
        work: async (call) => {
          for (const id of call.args) await answerOne(call, call.options, { name, id });
          return undefined;
        },
      },
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
