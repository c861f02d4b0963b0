import { readFileSync } from 'node:fs';

/**
 * Begins to measure how long the machine stands still for this run of the tests. What it returns gives the
 * milliseconds since then for which processes of the run were ready and waited for a processor, summed over
 * all of them, and those for which the host had taken the processors away.
 *
 * It decides which tries say nothing about a promise (time-promise.ts), and is subtracted from nothing. On a
 * machine with room it is next to nothing. Only Linux has these figures; elsewhere it is 0, and every try
 * counts.
 */
export function measureStall(): () => number {
  const waitedBefore = waitedMsByPid();
  const stolenBefore = stolenMs();
  return () => {
    let stalledMs = stolenMs() - stolenBefore;
    for (const [pid, waitedMs] of waitedMsByPid()) stalledMs += waitedMs - (waitedBefore.get(pid) ?? 0);
    return stalledMs;
  };
}

/** Of the main thread of every process that this run has started, the run itself included. */
function waitedMsByPid(): Map<number, number> {
  const waited = new Map<number, number>();
  const left = [process.ppid];
  for (let pid = left.pop(); pid !== undefined; pid = left.pop()) {
    // Nanoseconds on a processor, nanoseconds in the queue for one, and how often.
    waited.set(pid, Number(read(`/proc/${pid}/schedstat`).split(' ')[1] ?? 0) / 1e6);
    left.push(...read(`/proc/${pid}/task/${pid}/children`).split(' ').filter(Boolean).map(Number));
  }
  return waited;
}

/** Over all processors; the kernel counts in hundredths of a second. */
const stolenMs = (): number => Number(/^cpu +(?:\d+ ){7}(\d+)/.exec(read('/proc/stat'))?.[1] ?? 0) * 10;

/** Empty where there is no such file: the process has ended, or the kernel does not tell. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return '';
  }
}
