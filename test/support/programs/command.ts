import { Readable, Writable } from 'node:stream';
import { Command, CommanderError } from 'commander';
import { expect } from 'vitest';
import { addAdminCommands } from '../../../cli/admin/admin.ts';
import { CommandError } from '../../../cli/base/call-api.ts';
import { askDatabase } from '../../../deploy/ask-database.ts';
import type { Environment } from '../../../shared/runtime/settings.ts';

export interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A line, or what happens before the person types it. */
export type Typed = string | (() => Promise<string>);

export interface RunOptions {
  readonly env: Environment;
  /** Piped in. */
  readonly stdin?: string;
  /** As if it were typed at a terminal. Each question takes the next one. */
  readonly typed?: readonly Typed[];
  readonly isTerminal?: boolean;
  readonly signal?: AbortSignal;
  /** Gets what is written while it runs. */
  readonly seen?: (text: string) => void;
}

/** It has done what it was asked for. */
export function sure(ran: Ran): Ran {
  expect(ran.code, ran.stderr).toBe(0);
  return ran;
}

/** It ends with that code, and says why. */
export function expectRefused(ran: Ran, words: RegExp, code = 2): void {
  expect(ran).toMatchObject({ code, stderr: expect.stringMatching(words) });
}

/** An administrator's command in this process, as `deploy/agent-trust.ts` runs it. */
export async function runCommand(args: readonly string[], options: RunOptions): Promise<Ran> {
  const { env, stdin = '', typed, isTerminal = false, signal = new AbortController().signal } = options;
  const written = { stdout: '', stderr: '' };
  const sink = (name: 'stdout' | 'stderr') =>
    Object.assign(
      new Writable({
        decodeStrings: false,
        write: (chunk: string | Buffer, _encoding, done) => {
          written[name] += chunk.toString();
          options.seen?.(chunk.toString());
          done();
        },
      }),
      { isTTY: isTerminal },
    );
  let code: number | null = null;
  const [output, errors] = [sink('stdout'), sink('stderr')];
  const input = typed === undefined ? Readable.from(stdin === '' ? [] : [stdin]) : typing(typed);
  const program = new Command('agent-trust').exitOverride().configureOutput({
    writeOut: (text) => void output.write(text),
    writeErr: (text) => void errors.write(text),
  });
  addAdminCommands(program, {
    env,
    output,
    errors,
    stdin: Object.assign(input, { isTTY: typed !== undefined }),
    setExitCode: (next) => {
      code = next;
    },
    stopSignal: () => signal,
    askDatabase,
    help: () => '',
  });
  inherit(program);
  try {
    await program.parseAsync(args, { from: 'user' });
  } catch (error) {
    if (error instanceof CommanderError) code = error.exitCode === 0 ? 0 : 2;
    else if (error instanceof CommandError) {
      code = error.exitCode;
      written.stderr += `${error.message}\n`;
    } else throw error;
  }
  if (code === null) throw new Error(`${args.join(' ')} ended without an exit code`);
  return { code, ...written };
}

/** Commands that were made before take over neither of the two by themselves. */
function inherit(command: Command): void {
  for (const each of command.commands) {
    each.copyInheritedSettings(command);
    inherit(each);
  }
}

/** A line whenever somebody listens for one. */
function typing(lines: readonly Typed[]): Readable {
  const left = [...lines];
  const input = new Readable({ read: () => null });
  input.on('newListener', (event) => {
    if (event !== 'data') return;
    const line = left.shift();
    if (typeof line === 'function') void line().then((text) => input.push(`${text}\n`));
    else setImmediate(() => void (line === undefined ? input.push(null) : input.push(`${line}\n`)));
  });
  return input;
}
