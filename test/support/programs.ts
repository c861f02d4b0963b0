import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sharedService } from './shared-services.ts';
import { until } from './until.ts';

/** The programs as they run in production, compiled once for the whole run. */
export interface Programs {
  start(args: readonly string[], env: Readonly<Record<string, string>>): Program;
}

export interface Program {
  readonly pid: number;
  /** Everything it has written so far, standard output and standard error together. */
  output(): string;
  /** Standard output alone. */
  stdout(): string;
  /** Resolves when the output matches; throws when the program ends before, or after 30 s. */
  waitFor(pattern: RegExp): Promise<void>;
  /** Sends the signal to this process alone and resolves with the exit code (null: ended by a signal). */
  stop(signal?: NodeJS.Signals): Promise<number | null>;
  readonly exited: Promise<number | null>;
  readonly isRunning: boolean;
}

export async function compiledPrograms(): Promise<Programs> {
  return programsIn(await sharedService('programs'));
}

/** Of a folder that `compilePrograms` has made. */
export function programsIn(folder: string): Programs {
  const command = join(folder, 'deploy/agent-trust.js');
  return { start: (args, env) => startProgram([command, ...args], env) };
}

function startProgram(args: readonly string[], env: Readonly<Record<string, string>>): Program {
  const child: ChildProcess = spawn(process.execPath, args, {
    // Only what is named: a setting in the developer's shell must not change what is tested.
    env: { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let all = '';
  let out = '';
  child.stdout?.on('data', (chunk: Buffer) => {
    all += chunk.toString('utf8');
    out += chunk.toString('utf8');
  });
  child.stderr?.on('data', (chunk: Buffer) => {
    all += chunk.toString('utf8');
  });
  let running = true;
  const exited = new Promise<number | null>((resolve) => {
    child.once('exit', (code) => {
      running = false;
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
          if (!running) throw new Error(`the program ended before ${pattern} appeared:\n${all}`);
          return false;
        },
        { what: `${pattern} in the output:\n${all}`, timeoutMs: 30_000 },
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

/** A port that was free a moment ago. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() =>
        address !== null && typeof address === 'object' ? resolve(address.port) : reject(),
      );
    });
  });
}

/** A folder that every user may enter (an embedded PostgreSQL may run as somebody else), and its removal. */
export function temporaryFolder(): { readonly path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), 'agent-trust-test-'));
  chmodSync(path, 0o711);
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}
