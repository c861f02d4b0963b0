import { type Contender, contest, type Scene } from './contest.ts';
import { mustPermit } from './contestant.ts';
import { measuredCore } from './cores.ts';
import { warmLoad } from './records.ts';
import type { Side } from './rounds.ts';
import type { BenchOptions } from './row.ts';
import type { Table } from './table.ts';
import { wantedOf } from './targets.ts';
import { drive } from './wrk.ts';

const bothCores = '0,1';
const warmSecondsOfThread = 3;

/** P14: what a second listening thread is worth on two cores that the load generator uses too. */
export const threads = (options: BenchOptions): Promise<Table> =>
  contest(
    options,
    {
      row: 'threads',
      title: 'One and two listening threads on two cores, load generator included',
      rounds: 9,
      notes: [
        'One thread has a core alone, and wrk the other one: placed by the kernel, it had two thirds of one. Two threads and wrk share both cores, and wrk goes first. It takes a good part of a core, so that two threads never have two of them; the busier column says how many cores each sidecar had.',
        'Processor time of shipping after the load is shared by the threads, which ship at the same time.',
      ],
    },
    async (scene) => ({ contenders: [await withThreads(scene, 2), await withThreads(scene, 1)] }),
  );

async function withThreads(scene: Scene, count: number): Promise<Contender> {
  const isAlone = count === 1;
  const installation = await scene.installed({
    sidecarCores: isAlone ? String(measuredCore) : bothCores,
    sidecarSettings: { SIDECAR_THREADS: String(count) },
  });
  const { load: onOneCore, program, shipped } = await warmLoad(scene, installation, `threads-${count}`);
  const load = { ...onOneCore, goesFirst: true, ...(isAlone ? {} : { cores: bothCores }) };
  const name = isAlone ? 'one thread' : `${count} threads`;
  const measure: Side['measure'] = async (seconds) => {
    const before = program.cpuSeconds();
    const { done, seconds: tookS } = await drive(load, seconds);
    const during = program.cpuSeconds() - before;
    await shipped();
    const total = program.cpuSeconds() - before;
    return {
      perSecond: done / (tookS + (total - during) / count),
      perCpuSecond: done / total,
      coresBusy: during / tookS,
    };
  };
  // The threads follow the control plane by themselves: all of them have to know the gate.
  for (let i = 0; i < 50; i += 1) await mustPermit({ name, load });
  // Each of them compiles by itself, and has only its share of the load.
  await measure(warmSecondsOfThread * count);
  return {
    ...{ name, load, program, finish: shipped, does: '', doesNot: '' },
    side: () => ({ name, measure }),
    target: isAlone ? wantedOf('P14') : null,
  };
}
