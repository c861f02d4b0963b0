import { Bench } from 'tinybench';
import { must } from '../../shared/errors/assert.ts';
import type { Side } from './rounds.ts';

/**
 * A function that is called as often as it can be, on this core. The time is taken once for so many calls,
 * because taking it costs as much as some of them.
 */
export const callsOf = (name: string, run: () => unknown, callsPerSample = 1_000): Side => ({
  name,
  measure: async (seconds) => {
    let lastResult: unknown;
    const bench = new Bench({ time: seconds * 1_000, warmupTime: 50 });
    bench.add(name, () => {
      for (let i = 0; i < callsPerSample; i++) lastResult = run();
    });
    const cpuBefore = process.cpuUsage();
    const before = performance.now();
    await bench.run();
    const coresBusy = cpuMsSince(cpuBefore) / (performance.now() - before);
    const result = must(bench.tasks[0], 'a task was added').result;
    // Looked at, so that the compiler leaves out no call.
    if (result.state !== 'completed' || lastResult === undefined)
      throw new Error(`${name} ended as ${result.state}`);
    // By the quickest samples: the others tell of the neighbours.
    const perSecond = (callsPerSample * 1_000) / result.latency.min;
    return { perSecond, perCpuSecond: perSecond, coresBusy };
  },
});

function cpuMsSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}
