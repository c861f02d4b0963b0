import { join } from 'node:path';
import { chargedSide } from '../harness/charged-side.ts';
import { mustPermit } from '../harness/contestant.ts';
import { otherCore } from '../harness/cores.ts';
import { newFolder, removeFolder } from '../harness/folders.ts';
import { type Installation, install } from '../harness/installation.ts';
import { peer, start } from '../harness/programs.ts';
import { interleaved, type Side, summary, warmUp } from '../harness/rounds.ts';
import type { BenchOptions } from '../harness/row.ts';
import { briefS } from '../harness/size.ts';
import { type Table, tableLine } from '../harness/table.ts';
import { type TargetName, wantedOf } from '../harness/targets.ts';
import { allShipped, benchGate, checkLoad } from '../harness/warm-load.ts';
import type { Driven } from '../harness/wrk.ts';
import { drive, type Load, lackOfWrk } from '../harness/wrk.ts';

const batchChecks = 32;
/** As many frames under way, on many connections and on one. */
export const manyStreams = { streams: 8, inFlight: 32 };
const oneStream = { streams: 1, inFlight: 256 };

/** One way to ask the sidecar for decisions. */
export interface Way {
  readonly name: string;
  /** Counts decisions. */
  readonly drive: (seconds: number) => Promise<Driven>;
  /** Decisions under way when the generator ends. */
  readonly underWayMax: number;
  readonly does: string;
  readonly doesNot: string;
  readonly target: { readonly name: string; readonly wanted: number | null } | null;
}

/** What all ways ask: the request of row `warm`, at the same gate. */
export interface Asked {
  readonly installation: Installation;
  readonly gateId: string;
  readonly passport: string;
  readonly request: object;
  /** Of `POST check`, and what follows that address. */
  readonly load: (of: { readonly name: string; readonly below: string; readonly body: object }) => Load;
}

/** P20: decisions over streams beside single requests. */
export const stream = (options: BenchOptions): Promise<Table> =>
  measured(options, {
    row: 'stream',
    title: 'Warm decisions over streams, on one core',
    ways: (asked) => [overStreams(asked, manyStreams), single(asked, 'P20'), overStreams(asked, oneStream)],
    notes: [
      'Streams: a program of its own, closed loop. Its frames are made and masked once for each place in flight, and an answer is read as far as its id and decision, each of which must be a PERMIT: a real client costs more, on its own core.',
    ],
  });

/** P21: decisions in batches beside single requests. */
export const batch = (options: BenchOptions): Promise<Table> =>
  measured(options, {
    row: 'batch',
    title: 'Warm decisions in batches, on one core',
    ways: (asked) => [inBatches(asked), single(asked, 'P21')],
    notes: [`Each of the ${batchChecks} checks of a batch has the same passport and request, in full.`],
  });

async function measured(
  { size, say }: BenchOptions,
  row: Pick<Table, 'row' | 'title' | 'notes'> & { readonly ways: (asked: Asked) => readonly Way[] },
): Promise<Table> {
  const rounds = { full: 5, quick: 2, brief: 1 }[size];
  const secondsEach = size === 'brief' ? briefS : 1;
  const base = { row: row.row, title: row.title, unit: 'decisions/s', rounds, secondsEach };
  const reason = lackOfWrk();
  if (reason !== null) {
    return { ...base, lines: [], skipped: [{ side: 'everything', reason }], notes: [] };
  }
  const folder = newFolder('checks');
  const installation = await install({ isOwn: true });
  try {
    const asked = await prepareChecks(installation, folder);
    const ways = row.ways(asked);
    const generatorBusy = new Map<string, number[]>(ways.map(({ name }) => [name, []]));
    const sides = ways.map((way) =>
      sideOfWay(way, asked, ({ generatorCpuSeconds, seconds }) =>
        generatorBusy.get(way.name)?.push(generatorCpuSeconds / seconds),
      ),
    );
    await warmUp(sides, { size, seconds: secondsEach });
    for (const busy of generatorBusy.values()) busy.length = 0;
    const figures = await interleaved(sides, { rounds, seconds: secondsEach, say });
    const recorded = await mustHaveAll(asked);
    const ours = ways[0]?.name ?? '';
    return {
      ...base,
      lines: ways.map((way) => tableLine(way, figures, ours)),
      skipped: [],
      notes: [
        ...notes,
        ...row.notes,
        `Cores that the generator kept busy (median): ${[...generatorBusy].map(([name, busy]) => `${name} ${summary(busy).median.toFixed(2)}`).join('; ')}.`,
        `All ${recorded} decisions were PERMITs, and in the end all of them were in the database, in one chain without a hole.`,
        `The sidecar serves with ${await installation.sidecarServer()}.`,
      ],
    };
  } finally {
    await installation.stop();
    removeFolder(folder);
  }
}

const notes = [
  'The generator is on the other core, together with the control plane and PostgreSQL at a lower priority. Single requests and batches: wrk, one thread, 64 kept connections, closed loop; it looks for the PERMITs in each answer.',
  'All ways ask the same sidecar about the same passport and request at the same gate. Records that are not shipped when the time of a side is over are shipped then, and the processor time this takes is added to the time it is charged.',
];

export async function prepareChecks(installation: Installation, folder: string): Promise<Asked> {
  const { gateId, passport, request } = await benchGate(installation);
  const load: Asked['load'] = ({ name, below, body }) =>
    checkLoad(installation, { gateId, below, body, scriptPath: join(folder, `${name}.lua`) });
  const asked: Asked = { installation, gateId, passport, request, load };
  await mustPermit({ name: 'the sidecar', load: singleLoad(asked) });
  return asked;
}

const singleLoad = ({ load, passport, request }: Asked): Load =>
  load({ name: 'single', below: '', body: { passport, request } });

const single = (asked: Asked, target: TargetName): Way => ({
  name: 'single requests',
  drive: (seconds) => drive({ ...singleLoad(asked), permitsEach: 1 }, seconds),
  underWayMax: 64,
  does: 'a request and an answer of HTTP for each decision',
  doesNot: '',
  target: wantedOf(target),
});

export function inBatches({ load, passport, request }: Asked): Way {
  const checks = Array.from({ length: batchChecks }, () => ({ passport, request }));
  const batches = { ...load({ name: 'batch', below: '/batch', body: { checks } }), permitsEach: batchChecks };
  return {
    name: `batches of ${batchChecks}`,
    drive: async (seconds) => {
      const driven = await drive(batches, seconds);
      return { ...driven, done: driven.done * batchChecks };
    },
    underWayMax: 64 * batchChecks,
    does: 'a decision and a record for each check, as if it came alone',
    doesNot: 'HTTP for each check',
    target: null,
  };
}

export const overStreams = (
  { installation, gateId, passport, request }: Asked,
  { streams, inFlight }: { readonly streams: number; readonly inFlight: number },
): Way => ({
  name: `${streams} stream${streams === 1 ? '' : 's'}, ${inFlight} frames under way on each`,
  drive: async (seconds) => {
    const generator = start({
      core: otherCore,
      command: peer('stream-load'),
      environment: {
        ORIGIN: installation.sidecarOrigin,
        API_KEY: installation.apiKey,
        FRAME: JSON.stringify({ gate_id: gateId, passport, request }),
        STREAMS: String(streams),
        IN_FLIGHT: String(inFlight),
        // Several times as many records as by single requests have to be shipped afterwards.
        SECONDS: String(seconds / 2),
      },
    });
    try {
      const [, answers, microseconds, cpuMicroseconds] = await generator.find(/^RESULT (\d+) (\d+) (\d+)$/m);
      return {
        done: Number(answers),
        seconds: Number(microseconds) / 1e6,
        generatorCpuSeconds: Number(cpuMicroseconds) / 1e6,
      };
    } finally {
      await generator.stop();
    }
  },
  underWayMax: 0,
  does: 'a decision and a record for each frame, as for a request',
  doesNot: 'HTTP for each frame',
  target: null,
});

/** `onDriven`: called with the generator's figures of each measurement. */
export const sideOfWay = (
  { name, drive, underWayMax }: Way,
  { installation, gateId }: Asked,
  onDriven: (driven: Driven) => void = () => undefined,
): Side =>
  chargedSide({
    name,
    programs: [installation.sidecar],
    drive: async (seconds) => {
      const driven = await drive(seconds);
      onDriven(driven);
      return driven;
    },
    finish: () => allShipped(installation, [gateId]),
    underWayMax,
  });

const allDecisions = 'agent_trust_sidecar_decisions_total';

/**
 * Returns the number of decisions. Throws unless all were PERMITs with a record each in the database: the
 * last record of the passport's chain has that number.
 */
async function mustHaveAll(asked: Asked): Promise<number> {
  const { installation, gateId } = asked;
  await mustPermit({ name: 'the sidecar', load: singleLoad(asked) });
  await allShipped(installation, [gateId]);
  const { attestations } = await installation.api('GET', `/attestations?gate_id=${gateId}&limit=1`);
  const [newest] = attestations as readonly { readonly sequence: number }[];
  const made = await installation.sidecarMetric(allDecisions);
  const permits = await installation.sidecarMetric(`${allDecisions}{outcome="PERMIT"`);
  if (permits !== made) throw new Error(`${made - permits} of ${made} decisions were no PERMIT`);
  if (newest?.sequence !== made)
    throw new Error(`${made} decisions were made, and the chain ends at ${newest?.sequence}`);
  return made;
}
