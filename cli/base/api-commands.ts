import type { Command } from 'commander';
import { type ExitCode, exitCode } from '../../shared/runtime/exit-codes.ts';
import { agreed } from './agree.ts';
import type { ApiOptions, CommandHost, Work } from './host.ts';
import { type ListOptions, type Page, type PageQuery, printList } from './lists.ts';
import { given } from './options.ts';
import type { Columns } from './print.ts';

/** What the work of a command gets. */
export interface Call<Options> extends Work {
  /** The first argument; '': the command takes none. */
  readonly id: string;
  readonly args: readonly string[];
  readonly options: Options & ApiOptions;
}

interface Shown<Options> {
  /** Command lines for `--help`. */
  readonly examples?: readonly string[];
  /** Adds `--yes`: without it the person is asked this first, and nothing is done without a yes. */
  readonly asks?: (call: Call<Options>) => string;
  /** Does the work; what it resolves to is printed. */
  readonly of: (call: Call<Options>) => PromiseLike<object>;
}

interface Listed<Item, Filter extends object, Options> {
  readonly examples?: readonly string[];
  /** What options add to the query. */
  readonly filter?: (options: Options) => Filter;
  readonly page: (
    call: Call<Options>,
    query: PageQuery & ReturnType<typeof given<Filter>>,
  ) => PromiseLike<Page<Item>>;
  readonly columns: Columns<Item>;
}

/** Gives a command that calls the service what all such commands have: options, help and action. */
export class ApiCommands {
  readonly host: CommandHost;

  constructor(host: CommandHost) {
    this.host = host;
  }

  /** One that prints for itself. Without an exit code it has succeeded. */
  run<Options = unknown>(
    command: Command,
    {
      examples = [],
      work,
    }: {
      readonly examples?: readonly string[];
      readonly work: (call: Call<Options>) => Promise<ExitCode | undefined>;
    },
  ): void {
    callsApi(command, this.host, examples).action(() => {
      const args: string[] = command.processedArgs.flat();
      const options = command.opts<Options & ApiOptions>();
      return withApi(this.host, options, (of) => work({ ...of, options, args, id: args[0] ?? '' }));
    });
  }

  /** One that prints an object. */
  show<Options = unknown>(command: Command, { examples = [], asks, of }: Shown<Options>): void {
    if (asks !== undefined) asksFirst(command);
    this.run<Options & { readonly yes?: boolean }>(command, {
      examples,
      work: async (call) => {
        if (asks !== undefined && !(await agreed(call, call.options, asks(call)))) return exitCode.failure;
        call.print.item(await of(call));
        return undefined;
      },
    });
  }

  /** One that prints a list, page by page: a command with the options of `lists`. */
  list<Item extends object, Filter extends object = object, Options = unknown>(
    command: Command,
    { examples = [], filter, page, columns }: Listed<Item, Filter, Options>,
  ): void {
    this.run<Options & ListOptions>(command, {
      examples,
      work: async (call) => {
        const filtered = given(filter?.(call.options) ?? ({} as Filter));
        await printList(call, (query) => page(call, { ...query, ...filtered }), columns);
        return undefined;
      },
    });
  }
}

/** Adds `--json`, `--profile` and the end of the help. `examples`: command lines, each on its own. */
export function callsApi(command: Command, host: CommandHost, examples: readonly string[] = []): Command {
  return command
    .option('--json', 'for scripts: JSON, one object a line')
    .option('--profile <name>', 'a service of `agent-trust login`; default: see below')
    .addHelpText('after', () => `${examplesHelp(examples)}${host.help()}`);
}

/** Of a command that changes or ends something for good. */
export const asksFirst = (command: Command): Command =>
  command.option('--yes', 'without asking; needed where no terminal is there to ask at');

export const examplesHelp = (examples: readonly string[]): string =>
  examples.length === 0 ? '' : `\nExamples:\n${examples.map((each) => `  ${each}\n`).join('')}`;

/** Does the work of a command, closes its connections, and ends it with its exit code; undefined: success. */
export async function withApi(
  host: CommandHost,
  options: ApiOptions,
  work: (work: Work) => Promise<ExitCode | undefined>,
): Promise<void> {
  // What it imports is for those commands only that call the service.
  const { workWithApi } = await import('./work.ts');
  host.setExitCode(await workWithApi(host, options, work));
}
