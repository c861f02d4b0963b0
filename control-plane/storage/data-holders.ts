import { readdir, readlink } from 'node:fs/promises';
import { basename } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { StartError } from '../../shared/runtime/start-error.ts';
import { hasCode } from '../../shared/runtime/system-error.ts';

/**
 * The processes of PostgreSQL that work in a folder: all of them have made it their current directory, also
 * sessions whose server was killed. `postmaster.pid` names the server alone, and its number may meanwhile
 * belong to another process. Linux only.
 */
async function processesIn(folder: string): Promise<number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const held = await Promise.all(
    pids.map(async (pid) => {
      // Other users' processes and those that have just ended cannot be read; neither are ours to find.
      const [cwd, exe] = await Promise.all(
        ['cwd', 'exe'].map((name) => readlink(`/proc/${pid}/${name}`).catch(() => '')),
      );
      // The programs may have been replaced since the process began.
      return cwd === folder && basename(exe ?? '').replace(' (deleted)', '') === 'postgres';
    }),
  );
  return pids.filter((_, index) => held[index]).map(Number);
}

/**
 * Resolves true when no process works in the folder (a real path) any more, false when `timeoutMs` is over
 * first.
 */
async function waitUntilFree(folder: string, timeoutMs: number): Promise<boolean> {
  const deadline = performance.now() + timeoutMs;
  while ((await processesIn(folder)).length > 0) {
    if (performance.now() > deadline) return false;
    await pause(20);
  }
  return true;
}

/**
 * Ends what an earlier run left working in the folder: first as a shutdown in order (SIGINT), after
 * `timeoutMs` at once (SIGQUIT). The caller holds the folder, so whatever works in it has lost its parent.
 * Throws, naming the processes, where they do not end.
 */
export async function endProcessesIn(folder: string, timeoutMs: number): Promise<void> {
  for (const signal of ['SIGINT', 'SIGQUIT'] as const) {
    for (const pid of await processesIn(folder)) signalIfAlive(pid, signal);
    if (await waitUntilFree(folder, timeoutMs)) return;
  }
  const pids = (await processesIn(folder)).join(', ');
  throw new StartError(`PostgreSQL still uses ${folder} and does not stop; its processes are ${pids}.`);
}

function signalIfAlive(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    // It ended by itself.
    if (!hasCode(error, 'ESRCH')) throw error;
  }
}
