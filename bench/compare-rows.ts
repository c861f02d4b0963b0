import { join } from 'node:path';
import { setAuditStage } from './harness/audit-stage.ts';
import type { Build } from './harness/builds.ts';
import { mustPermit, sideOf } from './harness/contestant.ts';
import type { DatabaseKind } from './harness/database.ts';
import { newFolder, removeFolder } from './harness/folders.ts';
import { type Installation, install } from './harness/installation.ts';
import type { Side } from './harness/rounds.ts';
import { allShipped, benchGate, checkLoad, warmLoad } from './harness/warm-load.ts';
import { drive, type Load } from './harness/wrk.ts';
import { coldLoad } from './rows/cold.ts';
import { diverseTraffic } from './rows/diverse.ts';
import { type Asked as EmbeddedAsked, embeddedSide, startService } from './rows/embedded.ts';
import { figureOf, ingestLoad, ingestStage } from './rows/ingest.ts';
import { keyedSide, keyedTarget, measuredClients } from './rows/keyed.ts';
import {
  inBatches,
  manyStreams,
  overStreams,
  prepareChecks,
  sideOfWay,
  type Way,
} from './rows/many-checks.ts';

/** A build, ready to be measured. */
export interface Prepared {
  readonly side: Side;
  stop(): Promise<void>;
}

/** What two builds are compared by. */
export interface CompareRow {
  readonly name: string;
  readonly describe: string;
  readonly unit: string;
  /** Of one measurement; 0: it ends by itself. */
  readonly secondsEach: number;
  /** By the processor time of a database too, of the kind `database`. */
  readonly hasDatabase?: true;
  readonly prepare: (build: Build, database: DatabaseKind) => Promise<Prepared>;
}

export const compareRows: readonly CompareRow[] = [
  {
    name: 'warm',
    describe: 'decisions about one known passport',
    unit: 'decisions',
    secondsEach: 2,
    prepare: (build) => withSidecar(build, warmSide),
  },
  {
    name: 'diverse',
    describe: 'decisions about 1,000 passports at 50 gates',
    unit: 'decisions',
    secondsEach: 2,
    prepare: (build) => withSidecar(build, diverseSide),
  },
  {
    name: 'batch',
    describe: 'decisions in batches',
    unit: 'decisions',
    secondsEach: 1,
    prepare: (build) => withSidecar(build, (scene) => manySide(scene, inBatches)),
  },
  {
    name: 'stream',
    describe: 'decisions over streams',
    unit: 'decisions',
    secondsEach: 1,
    prepare: (build) => withSidecar(build, (scene) => manySide(scene, (of) => overStreams(of, manyStreams))),
  },
  {
    name: 'embedded',
    describe: 'decisions in the process that asks',
    unit: 'decisions',
    secondsEach: 1,
    prepare: (build) => withSidecar(build, inProcessSide),
  },
  {
    name: 'cold',
    describe: 'decisions about passports never seen',
    unit: 'decisions',
    secondsEach: 2,
    prepare: (build) => withSidecar(build, coldSide),
  },
  {
    name: 'keyed',
    describe: 'requests with an idempotency key, by the processor time of control plane and database',
    unit: 'PERMITs',
    secondsEach: 3,
    hasDatabase: true,
    prepare: keyedPrepared,
  },
  {
    name: 'check',
    describe: 'requests to the control plane itself, by the processor time of it and of its database',
    unit: 'PERMITs',
    secondsEach: 3,
    hasDatabase: true,
    prepare: checkPrepared,
  },
  {
    name: 'ingest',
    describe: 'records committed, by the processor time of control plane and database',
    unit: 'records',
    secondsEach: 0,
    hasDatabase: true,
    prepare: ingestPrepared,
  },
];

interface Scene {
  readonly build: Build;
  readonly installation: Installation;
  readonly folder: string;
  /** Called last first. */
  readonly atEnd: (stop: () => Promise<void>) => void;
}

async function withSidecar(build: Build, sideIn: (scene: Scene) => Promise<Side>): Promise<Prepared> {
  const folder = newFolder('compare');
  const stops: (() => Promise<void>)[] = [async () => removeFolder(folder)];
  const stop = async () => {
    for (const each of stops.toReversed()) await each();
  };
  try {
    const installation = await install({ command: build.command });
    stops.push(() => installation.stop());
    const side = await sideIn({ build, installation, folder, atEnd: (each) => void stops.push(each) });
    return { side, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function warmSide({ build, installation, folder }: Scene): Promise<Side> {
  const { load, shipped } = await warmLoad({ folder }, installation, 'warm');
  return driven({ build, installation }, load, shipped);
}

async function diverseSide({ build, installation, folder }: Scene): Promise<Side> {
  const { gateIds, requestsTo } = await diverseTraffic(installation);
  const variety = requestsTo(installation.sidecarOrigin);
  const [first] = variety;
  if (first === undefined) throw new Error('there are requests');
  const load = { ...first, variety, scriptPath: join(folder, 'diverse.lua') };
  return driven({ build, installation }, load, () => allShipped(installation, gateIds));
}

async function coldSide({ build, installation, folder }: Scene): Promise<Side> {
  const { load, finish } = await coldLoad(installation, join(folder, 'cold.lua'));
  return driven({ build, installation }, load, finish);
}

async function driven(
  { build, installation }: Pick<Scene, 'build' | 'installation'>,
  load: Load,
  finish: () => Promise<void>,
): Promise<Side> {
  const contestant = { name: build.name, program: installation.sidecar, load, finish };
  await mustPermit(contestant);
  return sideOf({ ...contestant, does: '', doesNot: '', target: null });
}

async function manySide(
  { build, installation, folder }: Scene,
  wayOf: (asked: Awaited<ReturnType<typeof prepareChecks>>) => Way,
): Promise<Side> {
  const asked = await prepareChecks(installation, folder);
  return sideOfWay({ ...wayOf(asked), name: build.name }, asked);
}

async function inProcessSide({ build, installation, folder, atEnd }: Scene): Promise<Side> {
  const asked: EmbeddedAsked = { installation, folder, ...(await benchGate(installation)), decided: 0 };
  const service = await startService(asked, build.embedded);
  atEnd(() => service.stop());
  return embeddedSide(asked, service, build.name);
}

function keyedPrepared(build: Build, database: DatabaseKind): Promise<Prepared> {
  return withControlPlane(build, database, async (installation, folder) => {
    const target = await keyedTarget(installation);
    return keyedSide(installation, target, { name: build.name, clients: measuredClients, folder });
  });
}

const checkClients = 50;

function checkPrepared(build: Build, database: DatabaseKind): Promise<Prepared> {
  return withControlPlane(build, database, async (installation, folder) => {
    const { gateId, passport, request } = await benchGate(installation);
    const controlPlane = { sidecarOrigin: installation.controlPlaneOrigin, apiKey: installation.apiKey };
    const scriptPath = join(folder, 'check.lua');
    const load: Load = {
      ...checkLoad(controlPlane, { gateId, body: { passport, request }, scriptPath }),
      ...{ connections: checkClients, permitsEach: 1 },
    };
    return {
      name: build.name,
      measure: async (seconds) => {
        const cpuBefore = installation.controlPlaneCpuSeconds();
        const { done, seconds: tookS } = await drive(load, seconds);
        const cpu = installation.controlPlaneCpuSeconds() - cpuBefore;
        return { perSecond: done / tookS, perCpuSecond: done / cpu, coresBusy: cpu / tookS };
      },
    };
  });
}

async function withControlPlane(
  { command }: Pick<Build, 'command'>,
  database: DatabaseKind,
  sideIn: (installation: Installation, folder: string) => Promise<Side>,
): Promise<Prepared> {
  const folder = newFolder('compare');
  const installation = await install({ measured: 'control-plane', command, database });
  const stop = async () => {
    await installation.stop();
    removeFolder(folder);
  };
  try {
    return { side: await sideIn(installation, folder), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

const ingestBatches = 10;

async function ingestPrepared({ name, command }: Build, database: DatabaseKind): Promise<Prepared> {
  const stage = await setAuditStage({ ...ingestStage, command, database });
  try {
    const load = await ingestLoad(stage, ingestBatches);
    const side: Side = {
      name,
      measure: async () => {
        const ship = await load.prepare();
        return figureOf(load.records, await ship());
      },
    };
    const stop = async () => {
      await load.close();
      await stage.stop();
    };
    return { side, stop };
  } catch (error) {
    await stage.stop();
    throw error;
  }
}
