import { readdirSync, readFileSync } from 'node:fs';

/**
 * Milliseconds of a processor that all threads of a running process have used. Linux counts them in
 * nanoseconds for each thread, and in steps of 10 ms for the process, which is too coarse for a few hundred
 * requests.
 */
export function processCpuMs(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`);
  return threads.reduce((sum, thread) => sum + threadCpuMs(`/proc/${pid}/task/${thread}/schedstat`), 0);
}

function threadCpuMs(path: string): number {
  try {
    return Number(readFileSync(path, 'utf8').split(' ')[0]) / 1e6;
  } catch {
    // A thread that has ended meanwhile.
    return 0;
  }
}
