import { type Contender, contest, type Scene } from '../harness/contest.ts';
import { mustPermit } from '../harness/contestant.ts';
import { measuredCore } from '../harness/cores.ts';
import { onlyPermits } from '../harness/permits.ts';
import type { Side } from '../harness/rounds.ts';
import type { BenchOptions } from '../harness/row.ts';
import { briefS } from '../harness/size.ts';
import type { Table } from '../harness/table.ts';
import { wantedOf } from '../harness/targets.ts';
import { warmLoad } from '../harness/warm-load.ts';
import { connectionsUsual, drive, type Load } from '../harness/wrk.ts';

const bothCores = '0,1';
const warmSecondsOfThread = 3;

/** A batch costs the sidecar a dozen single requests, and the generator hardly more than one. */
const batchChecks = 32;

/**
 * P14: two listening threads beside one, on two cores that the load generator uses too; and with batches,
 * where the generator needs little of them.
 */
export const threads = async (options: BenchOptions): Promise<readonly Table[]> => [
  await compared(options, {
    row: 'threads',
    title: 'One and two listening threads on two cores, load generator included',
    unit: 'requests/s',
    rounds: 9,
    secondsEach: 2,
    loadOf: (load) => load,
    target: wantedOf('P14'),
    notes: [],
  }),
  await compared(options, {
    row: 'threads-batch',
    title: `One and two listening threads with batches of ${batchChecks}, load generator included`,
    unit: 'decisions/s',
    // Each leaves several times as many records to ship as one of single requests.
    rounds: 5,
    secondsEach: 1,
    loadOf: inBatches,
    target: { name: 'for orientation', wanted: null },
    notes: [`Each of the ${batchChecks} checks of a batch has the same passport and request, in full.`],
  }),
];

interface Comparison extends Pick<Table, 'row' | 'title' | 'unit' | 'rounds' | 'secondsEach' | 'notes'> {
  /** Of the load of single requests. */
  readonly loadOf: (single: Load) => Load;
  readonly target: Contender['target'];
}

const compared = (options: BenchOptions, { loadOf, target, ...about }: Comparison): Promise<Table> =>
  contest(
    options,
    {
      ...about,
      notes: [
        'One thread has a core alone, and wrk the other one: placed by the kernel, it had two thirds of one. Two threads and wrk share both cores, and wrk goes first; the busier column says how many cores each sidecar had.',
        'Processor time of shipping after the load is shared by the threads, which ship at the same time.',
        ...about.notes,
      ],
    },
    async (scene) => ({
      contenders: [
        await withThreads(scene, 2, { loadOf, target: null }),
        await withThreads(scene, 1, { loadOf, target }),
      ],
    }),
  );

function inBatches(single: Load): Load {
  const checks = Array.from({ length: batchChecks }, () => JSON.parse(single.body));
  const body = JSON.stringify({ checks });
  return { ...single, url: `${single.url}/batch`, body, permitsEach: batchChecks };
}

async function withThreads(
  scene: Scene,
  count: number,
  { loadOf, target }: Pick<Comparison, 'loadOf' | 'target'>,
): Promise<Contender> {
  const isAlone = count === 1;
  const installation = await scene.installed({
    sidecarCores: isAlone ? String(measuredCore) : bothCores,
    sidecarSettings: { SIDECAR_THREADS: String(count) },
  });
  const { load: onOneCore, program, shipped } = await warmLoad(scene, installation, `threads-${count}`);
  const single = { ...onOneCore, goesFirst: true, ...(isAlone ? {} : { cores: bothCores }) };
  const load = loadOf(single);
  const name = isAlone ? 'one thread' : `${count} threads`;
  const { permitsEach = 1 } = load;
  const asked = { name, programs: [program], underWayMax: connectionsUsual * permitsEach };
  const measure: Side['measure'] = async (seconds) => {
    const { done, tookS, during, total } = await onlyPermits(asked, async () => {
      const before = program.cpuSeconds();
      const { done: answers, seconds: tookS } = await drive(load, seconds);
      const during = program.cpuSeconds() - before;
      await shipped();
      return { done: answers * permitsEach, tookS, during, total: program.cpuSeconds() - before };
    });
    return {
      perSecond: done / (tookS + (total - during) / count),
      perCpuSecond: done / total,
      coresBusy: during / tookS,
    };
  };
  // Each thread follows the control plane, and each has to know the gate.
  for (let i = 0; i < 50; i += 1) await mustPermit({ name, load });
  // Each compiles its own code, with its share of the load.
  await measure(scene.size === 'brief' ? briefS : warmSecondsOfThread * count);
  return {
    ...{ name, load, program, finish: shipped, does: '', doesNot: '' },
    side: () => ({ name, measure }),
    target,
  };
}
