import { Bench } from 'tinybench';
import { must } from '../../shared/errors/assert.ts';
import type { Side } from './rounds.ts';

/**
 * A function called in a loop on this core. The clock is read once per `callsPerSample` calls, because
 * reading it costs as much as the shortest of them.
 */
export const callsOf = (name: string, run: () => unknown, callsPerSample = 1_000): Side => ({
  name,
  measure: async (seconds) => {
    let lastResult: unknown;
    const bench = new Bench({ time: seconds * 1_000, warmupTime: Math.min(50, seconds * 1_000) });
    bench.add(name, () => {
      for (let i = 0; i < callsPerSample; i++) lastResult = run();
    });
    const cpuBefore = process.cpuUsage();
    const before = performance.now();
    await bench.run();
    const coresBusy = cpuMsSince(cpuBefore) / (performance.now() - before);
    const result = must(bench.tasks[0], 'a task was added').result;
    // Used, so that the compiler drops no call.
    if (result.state !== 'completed' || lastResult === undefined)
      throw new Error(`${name} ended as ${result.state}`);
    // The quickest sample: slower ones measure the neighbours.
    const perSecond = (callsPerSample * 1_000) / result.latency.min;
    return { perSecond, perCpuSecond: perSecond, coresBusy };
  },
});

function cpuMsSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}
