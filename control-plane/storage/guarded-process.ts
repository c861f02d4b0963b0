import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

export interface GuardedCommand {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Root may run the command as another user; null: as our own user. */
  readonly user: { readonly uid: number; readonly gid: number } | null;
  readonly onLine?: (line: string) => void;
}

export interface GuardedProcess {
  /**
   * Resolves with the exit code when the command has ended. Null: it could not be started, or a signal ended
   * its guard.
   */
  readonly exited: Promise<number | null>;
  readonly isRunning: boolean;
  /** The last lines that the command wrote, for an error message. */
  lastLines(): string;
  /** Asks the command to end (SIGINT). Resolves when it has; after `timeoutMs` it is killed. */
  stop(options: { readonly timeoutMs: number }): Promise<void>;
}

/**
 * The shell holds the reading end of a pipe whose writing end only our process has: however we end, kill -9
 * included, the pipe closes, and the command gets SIGINT. It runs in a session of its own, so that Ctrl-C in
 * a terminal reaches us first and we stop it in order. A shell starts a background command with /dev/null as
 * its input, hence the copy of the pipe on descriptor 3; and with SIGINT ignored, hence the repetition: the
 * first signals may come before the command has installed its own handler.
 */
const guardScript = `
exec 3<&0
"$@" 3<&- &
command=$!
( read -r line <&3; while kill -INT $command; do sleep 0.2; done ) >/dev/null 2>&1 &
watcher=$!
exec 3<&-
wait $command
code=$?
kill $watcher 2>/dev/null
exit $code`;

const linesKept = 20;

/**
 * Runs a command that ends when we end. It does not restart anything. Linux and other systems with /bin/sh.
 */
export function startGuarded(options: GuardedCommand): GuardedProcess {
  const child = spawn('/bin/sh', ['-c', guardScript, 'guard', options.command, ...options.args], {
    cwd: '/',
    env: { ...options.env },
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe'],
    ...(options.user ?? {}),
  });
  const lines: string[] = [];
  for (const output of [child.stdout, child.stderr]) {
    createInterface({ input: output }).on('line', (line) => {
      lines.push(line);
      if (lines.length > linesKept) lines.shift();
      options.onLine?.(line);
    });
  }
  // Closing the pipe of a command that has just ended on its own is no error.
  child.stdin.on('error', () => undefined);
  let isRunning = true;
  const exited = new Promise<number | null>((resolve) => {
    const end = (code: number | null): void => {
      isRunning = false;
      resolve(code);
    };
    child.once('exit', end);
    child.once('error', (error) => {
      lines.push(`cannot start ${options.command}: ${error.message}`);
      end(null);
    });
  });
  return {
    exited,
    get isRunning() {
      return isRunning;
    },
    lastLines: () => lines.join('\n'),
    stop: (deadline) => stopGuarded(child, exited, deadline.timeoutMs),
  };
}

async function stopGuarded(
  child: ChildProcess & { readonly stdin: { end(): void } },
  exited: Promise<number | null>,
  timeoutMs: number,
): Promise<void> {
  child.stdin.end();
  const timer = setTimeout(() => {
    // The whole group: the guard, its watcher and the command.
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGKILL');
  }, timeoutMs);
  await exited;
  clearTimeout(timer);
}
