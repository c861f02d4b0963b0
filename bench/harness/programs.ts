import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { measuredCore, otherCore } from './cores.ts';
import type { Decisions } from './permits.ts';

/** A program that runs on one core until it is stopped. */
export interface Program {
  readonly pid: number;
  /**
   * The first match in what it has written; throws with all of it when it ends before, or after a
   * minute.
   */
  find(pattern: RegExp): Promise<RegExpExecArray>;
  /** Processor seconds it has used, all threads together. */
  cpuSeconds(): number;
  /** To its standard output and its standard error, as far as this process has read them. */
  writtenBytes(): number;
  /** Of a sidecar alone. */
  readonly decisions?: () => Promise<Decisions>;
  /** Resolves with its exit code once it has ended by itself, null after a signal. */
  readonly ended: Promise<number | null>;
  stop(): Promise<void>;
}

const running = new Set<ChildProcess>();

/** For setpriv(1): the system ends the program when this process ends, also where that is killed. */
const endsWithThis = ['--pdeathsig', 'TERM'];

/** `stop` ends this process. Further signals do not cut it short while it removes its folders. */
export function onStopSignal(stop: (signal: 'SIGINT' | 'SIGTERM') => void): void {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stop(signal));
}

/** Ends the programs of a failed row, so that the next row has its cores. */
export function endPrograms(): void {
  for (const child of running) child.kill('SIGKILL');
}

/** A script of the folder `peers` as it runs now: compiled, or from source under tsx. */
export function peer(name: string): readonly string[] {
  const isSource = import.meta.url.endsWith('.ts');
  const path = fileURLToPath(new URL(`../peers/${name}.${isSource ? 'ts' : 'js'}`, import.meta.url));
  return [process.execPath, ...(isSource ? ['--import', 'tsx'] : []), path];
}

/** `environment` is the whole environment: the shell's must not change what is measured. */
export function start(options: {
  /** Or several, as taskset(1) takes them. */
  readonly core: number | string;
  readonly command: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
}): Program {
  const child = spawn(
    'setpriv',
    [...endsWithThis, 'taskset', '-c', String(options.core), ...options.command],
    {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { PATH: '/usr/local/bin:/usr/bin:/bin', ...options.environment },
    },
  );
  const pid = child.pid;
  if (pid === undefined) throw new Error(`${options.command.join(' ')} could not be started`);
  running.add(child);
  const ended = new Promise<number | null>((resolve) =>
    child.once('exit', (code) => {
      running.delete(child);
      resolve(code);
    }),
  );
  let writtenBytes = 0;
  for (const pipe of [child.stdout, child.stderr])
    pipe?.on('data', ({ length }: Buffer) => {
      writtenBytes += length;
    });
  return {
    pid,
    find: finder(child, options.command.join(' ')),
    cpuSeconds: () => cpuSecondsOf(pid),
    writtenBytes: () => writtenBytes,
    ended,
    stop: async () => {
      child.kill('SIGTERM');
      const last = setTimeout(() => child.kill('SIGKILL'), 15_000);
      await ended;
      clearTimeout(last);
    },
  };
}

function finder(child: ChildProcess, name: string): Program['find'] {
  let written = '';
  let hasEnded = false;
  let look: () => void = () => undefined;
  const take = (bytes: Buffer) => {
    written = (written + bytes.toString('utf8')).slice(-100_000);
    look();
  };
  child.stdout?.on('data', take);
  child.stderr?.on('data', take);
  child.once('close', () => {
    hasEnded = true;
    look();
  });
  return (pattern) =>
    new Promise((resolve, reject) => {
      const deadline = setTimeout(() => fail('has not said it within a minute'), 60_000);
      const fail = (what: string) => {
        clearTimeout(deadline);
        reject(new Error(`${name} ${what}: ${pattern}\n${written}`));
      };
      look = () => {
        const match = pattern.exec(written);
        if (match !== null) {
          clearTimeout(deadline);
          resolve(match);
        } else if (hasEnded) {
          fail('ended before it said');
        }
      };
      look();
    });
}

/** proc(5): user and system time are fields 14 and 15, in hundredths of a second. */
function cpuSecondsOf(pid: number): number {
  const fields = statOf(pid);
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

/**
 * proc(5): the fields from the third one on. The name before them may hold spaces. `of`: a process, or a
 * thread as `<pid>/task/<tid>`.
 */
function statOf(of: number | string): readonly string[] {
  const stat = readFileSync(`/proc/${of}/stat`, 'utf8');
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}

/**
 * Processor seconds of a process and of all that it has started, directly or not, whether that runs or has
 * ended.
 */
export function cpuSecondsOfTree(pid: number): number {
  let hundredths = 0;
  eachOfTree(pid, (one) => {
    // Fields 16 and 17 are those of its children that have ended, and of theirs.
    const [user, system, ofEndedUser, ofEndedSystem] = statOf(one).slice(11, 15).map(Number);
    hundredths += (user ?? 0) + (system ?? 0) + (ofEndedUser ?? 0) + (ofEndedSystem ?? 0);
  });
  return hundredths / 100;
}

/** Programs started from now on stay off the measured core by default. */
export function leaveMeasuredCore(): void {
  pinThisProcess(otherCore);
}

function pinThisProcess(core: number): void {
  execFileSync('taskset', ['-a', '-c', '-p', String(core), String(process.pid)], { stdio: 'ignore' });
}

/** Pins a process and all that it has started, directly or not, as taskset(1) takes the cores. */
export function pinTree(pid: number, cores: string): void {
  eachOfTree(pid, (one) =>
    execFileSync('taskset', ['-a', '-c', '-p', cores, String(one)], { stdio: 'ignore' }),
  );
}

function eachOfTree(pid: number, work: (pid: number) => void): void {
  const left = [pid];
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    try {
      for (const thread of readdirSync(`/proc/${next}/task`)) {
        const children = readFileSync(`/proc/${next}/task/${thread}/children`, 'utf8');
        left.push(...children.split(' ').filter(Boolean).map(Number));
      }
      work(next);
    } catch {
      // It has ended meanwhile, as sessions of the database do, or this Linux has no autogroups.
    }
  }
}

/** Of util-linux, as taskset(1) is. */
const chrt = 'chrt';

/**
 * Gives a program and its threads real-time priority on their core; false where the system refuses it (not
 * root). Threads that the program has made nice (setpriority(2)) stay behind its others and before all other
 * programs: one of them was seen to wait while it held a lock, and the main thread waited 5 ms for that.
 */
export function goFirst(pid: number): boolean {
  try {
    for (const thread of readdirSync(`/proc/${pid}/task`)) {
      const isBehind = Number(statOf(`${pid}/task/${thread}`)[16]) > 0;
      execFileSync(chrt, ['--rr', '--pid', isBehind ? '1' : '2', thread], { stdio: 'ignore' });
    }
    return true;
  } catch {
    return false;
  }
}

const lowNiceness = 19;
/**
 * Prefix of a command that runs only while its core is idle. With niceness alone the load generator had to
 * wait, and a sidecar had 87 % of its core where it has 93 % with this.
 */
export const nicely: readonly string[] = [chrt, '--idle', '0'];

/** A process, and when it has ended. */
interface Ending {
  readonly pid: number;
  readonly ended: Promise<unknown>;
}

/** As `nicely` and `keepSessionsNice` do, with a program that runs already and all that it has started. */
export function leaveCoreToOthers(program: Ending): void {
  eachOfTree(program.pid, (one) =>
    execFileSync(chrt, ['--idle', '--all-tasks', '--pid', '0', String(one)], { stdio: 'ignore' }),
  );
  keepSessionsNice(program);
}

/** New connections come seldom, and a look takes a millisecond. */
const lookMs = 200;

/**
 * Makes the sessions that a program starts nice, until it ends. Linux divides a core between sessions before
 * it looks at their tasks (sched(7), "The autogroup feature"), and each connection to PostgreSQL is a
 * session: a few of them took most of the load generator's core.
 */
export function keepSessionsNice({ pid, ended }: Ending): void {
  const ownSession = statOf('self')[3];
  const seen = new Set<number>();
  const look = setInterval(() => {
    eachOfTree(pid, (one) => {
      if (seen.has(one) || statOf(one)[3] === ownSession) return;
      writeFileSync(`/proc/${one}/autogroup`, String(lowNiceness));
      seen.add(one);
    });
  }, lookMs);
  void ended.then(() => clearInterval(look));
}

/** Whatever `work` starts runs on the measured core; this process leaves it again. */
export async function onMeasuredCore<T>(work: () => Promise<T>): Promise<T> {
  pinThisProcess(measuredCore);
  try {
    return await work();
  } finally {
    leaveMeasuredCore();
  }
}

/** The full path, or null where the program is not installed. */
export function findProgram(name: string): string | null {
  try {
    return execFileSync('/bin/sh', ['-c', 'command -v "$1"', 'sh', name], { encoding: 'utf8' }).trim();
  } catch {
    // `command -v` ends with 1 for a name it does not know.
    return null;
  }
}

/** A port that was free a moment ago. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() =>
        typeof address === 'object' && address !== null ? resolve(address.port) : reject(),
      );
    });
  });
}
