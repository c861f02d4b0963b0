import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { until } from '../base/until.ts';
import { sharedService } from '../run/shared-services.ts';

/** The programs as processes, compiled once for the whole run. */
export interface Programs {
  /** `script`: which one, below the project; default: `deploy/agent-trust.js`. */
  start(args: readonly string[], env: Readonly<Record<string, string>>, script?: string): Program;
}

export interface Program {
  readonly pid: number;
  /** Everything it has written so far, standard output and standard error together. */
  output(): string;
  /** Standard output alone. */
  stdout(): string;
  /** Resolves when the output matches; throws when the program ends before, or after 60 s. */
  waitFor(pattern: RegExp): Promise<void>;
  /** Sends the signal to this process alone and resolves as `exited` does. */
  stop(signal?: NodeJS.Signals): Promise<number | null>;
  /**
   * The exit code (null: ended by a signal), when the program has ended and `output` has all that it wrote.
   */
  readonly exited: Promise<number | null>;
  readonly isRunning: boolean;
}

/** File by file: for scripts of the project that are not shipped, and tests of what a file alone does. */
export async function compiledPrograms(): Promise<Programs> {
  return programsIn(await sharedService('programs'));
}

/** As they are shipped, in a few files (deploy/package/bundle-programs.ts). */
export async function bundledPrograms(): Promise<Programs> {
  return programsIn(await sharedService('bundle'));
}

/** Of a folder that `compilePrograms` or `bundleForTests` has made. */
export function programsIn(folder: string): Programs {
  return {
    start: (args, env, script = 'deploy/agent-trust.js') =>
      startProgram([join(folder, script), ...args], env),
  };
}

function startProgram(args: readonly string[], env: Readonly<Record<string, string>>): Program {
  const child: ChildProcess = spawn(process.execPath, args, {
    // Only what is named: a setting in the developer's shell must not change what is tested.
    env: { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let all = '';
  let out = '';
  // A character of several bytes may come in two pieces: the stream puts it together.
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    all += text;
    out += text;
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    all += text;
  });
  let running = true;
  let isWhole = false;
  const exited = new Promise<number | null>((resolve) => {
    child.once('exit', () => {
      running = false;
    });
    // Not at its exit: what it wrote last may still be in the pipe then.
    child.once('close', (code) => {
      isWhole = true;
      resolve(code);
    });
  });
  return {
    pid: child.pid ?? -1,
    output: () => all,
    stdout: () => out,
    waitFor: (pattern) =>
      until(
        () => {
          if (pattern.test(all)) return true;
          if (isWhole) throw new Error(`the program ended before ${pattern} appeared:\n${all}`);
          return false;
        },
        { what: `${pattern} in the output:\n${all}`, timeoutMs: 60_000 },
      ),
    stop: (signal = 'SIGTERM') => {
      child.kill(signal);
      return exited;
    },
    exited,
    get isRunning() {
      return running;
    },
  };
}
