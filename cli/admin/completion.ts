import { Argument, type Command, type Option } from 'commander';
import { exitCode } from '../../shared/runtime/exit-codes.ts';
import { examplesHelp } from '../base/api-commands.ts';
import type { CommandHost } from '../base/host.ts';

const shells = ['bash', 'zsh'] as const;
type Shell = (typeof shells)[number];

/** Adds `agent-trust completion`: a script for a shell, of all commands and options. */
export function addCompletionCommand(program: Command, host: CommandHost): void {
  program
    .command('completion')
    .description('print a script with which a shell completes these commands')
    .addArgument(new Argument('<shell>').choices(shells))
    .addHelpText('after', () =>
      examplesHelp([
        'source <(agent-trust completion bash)                      # in ~/.bashrc',
        'source <(agent-trust completion zsh)                       # in ~/.zshrc, behind compinit',
      ]),
    )
    .action((shell: Shell) => {
      const places = placesOf(program);
      host.output.write(shell === 'bash' ? bashScript(places) : zshScript(places));
      host.setExitCode(exitCode.success);
    });
}

interface Word {
  readonly name: string;
  readonly description: string;
}

/** What can follow a command. */
interface Place {
  /** `/gates/list`; the program itself: empty. */
  readonly path: string;
  readonly commands: readonly Word[];
  readonly options: readonly Word[];
  /** What follows an option, or is an argument (`name` null); `file`: any file. */
  readonly values: readonly {
    readonly option: string | null;
    readonly choices: readonly string[] | 'file' | 'any';
  }[];
}

function placesOf(command: Command, path = ''): readonly Place[] {
  const options = command.options.filter(({ hidden }) => !hidden);
  const argument = command.registeredArguments.at(0);
  const own: Place = {
    path,
    commands: command.commands.map((each) => ({ name: each.name(), description: each.description() })),
    options: [
      ...options.map((each) => ({ name: flagOf(each), description: each.description })),
      { name: '--help', description: 'what the command does and takes' },
    ],
    values: [
      ...options
        .filter(({ required, optional }) => required || optional)
        .map((each) => ({ option: flagOf(each), choices: each.argChoices ?? kindOf(each.flags) })),
      ...(argument === undefined
        ? []
        : [{ option: null, choices: argument.argChoices ?? kindOf(`<${argument.name()}>`) }]),
    ],
  };
  return [own, ...command.commands.flatMap((each) => placesOf(each, `${path}/${each.name()}`))];
}

const flagOf = ({ long, short }: Option): string => long ?? short ?? '';
const kindOf = (flags: string): 'file' | 'any' => (/<file>/.test(flags) ? 'file' : 'any');

/** Of every command: those of `case` in a script. */
const pathsOf = (places: readonly Place[]): string =>
  places.flatMap(({ path }) => (path === '' ? [] : path)).join('|');

function bashScript(places: readonly Place[]): string {
  const values = places.flatMap(({ path, values }) =>
    values.flatMap(({ option, choices }) => {
      if (option === null) return [];
      const reply = {
        file: 'compopt -o default; COMPREPLY=()',
        any: 'COMPREPLY=()',
      };
      const action =
        typeof choices === 'string'
          ? reply[choices]
          : `COMPREPLY=($(compgen -W '${choices.join(' ')}' -- "$current"))`;
      return `    '${path} ${option}') ${action}; return ;;\n`;
    }),
  );
  const words = places.map(({ path, commands, options, values }) => {
    const argument = values.find(({ option }) => option === null)?.choices;
    const choices = Array.isArray(argument) ? argument : [];
    const all = [...commands.map(({ name }) => name), ...choices, ...options.map(({ name }) => name)];
    const files = argument === 'file' ? ' compopt -o default;' : '';
    return `    '${path}')${files} words='${all.join(' ')}' ;;\n`;
  });
  return `# Completion of agent-trust for bash; written by: agent-trust completion bash
_agent_trust() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD - 1]} place= words= i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$place/\${COMP_WORDS[i]}" in
      ${pathsOf(places)}) place="$place/\${COMP_WORDS[i]}" ;;
    esac
  done
  case "$place $previous" in
${values.join('')}  esac
  case "$place" in
${words.join('')}  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -F _agent_trust agent-trust
`;
}

function zshScript(places: readonly Place[]): string {
  const values = places.flatMap(({ path, values }) =>
    values.flatMap(({ option, choices }) => {
      if (option === null) return [];
      const action = { file: '_files', any: `_message '${option}'` };
      return `    '${path} ${option}') ${typeof choices === 'string' ? action[choices] : `compadd -- ${choices.join(' ')}`}; return ;;\n`;
    }),
  );
  const words = places.map(({ path, commands, options, values }) => {
    const argument = values.find(({ option }) => option === null)?.choices;
    const choices = Array.isArray(argument) ? argument.map((name) => ({ name, description: '' })) : [];
    const all = [...commands, ...choices];
    const files = argument === 'file' ? ' _files;' : '';
    return `    '${path}')${files}
      commands=(${all.map(zshWord).join(' ')})
      options=(${options.map(zshWord).join(' ')}) ;;\n`;
  });
  return `#compdef agent-trust
# Completion of agent-trust for zsh; written by: agent-trust completion zsh
_agent_trust() {
  local place= i
  local -a commands options
  for ((i = 2; i < CURRENT; i++)); do
    case "$place/\${words[i]}" in
      ${pathsOf(places)}) place="$place/\${words[i]}" ;;
    esac
  done
  case "$place \${words[CURRENT - 1]}" in
${values.join('')}  esac
  case "$place" in
${words.join('')}  esac
  if [[ \${words[CURRENT]} == -* ]]; then _describe -o option options
  else _describe command commands
  fi
}
if [[ \${funcstack[1]} == _agent_trust ]]; then _agent_trust "$@"; else compdef _agent_trust agent-trust; fi
`;
}

/** A word and its description, as \`_describe\` wants them, in quotes. */
const zshWord = ({ name, description }: Word): string => {
  const text = description === '' ? name : `${name.replaceAll(':', '\\:')}:${description}`;
  return `'${text.replaceAll("'", "'\\''")}'`;
};
