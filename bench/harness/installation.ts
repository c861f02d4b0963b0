import { randomBytes } from 'node:crypto';
import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Database } from '../../control-plane/base/database.ts';
import { connect, socketUrl } from '../../control-plane/storage/connect.ts';
import { bothCores, measuredCore, otherCore } from './cores.ts';
import { copiedDatabase, type DatabaseKind, startDebianDatabase } from './database.ts';
import { newFolder, removeFolder } from './folders.ts';
import type { Decisions } from './permits.ts';
import {
  cpuSecondsOfTree,
  freePort,
  keepSessionsNice,
  nicely,
  type Program,
  pinTree,
  start,
} from './programs.ts';

/**
 * The real programs: one of them alone on the measured core, the other one on the other core, beside the load
 * generator.
 */
export interface Installation extends ControlPlane {
  /** Rows before have used it, and their decisions are among those that it counts. */
  readonly isCommon: boolean;
  /** The one that runs now. */
  readonly controlPlane: Program;
  readonly sidecar: Program;
  readonly controlPlaneOrigin: string;
  /** Processor seconds that it and its database have used. */
  controlPlaneCpuSeconds(): number;
  readonly sidecarOrigin: string;
  /** The public key set, as JSON text. */
  jwks(): Promise<string>;
  /** Of one counter or gauge at the sidecar, all its labels together; 0 where there is none. */
  sidecarMetric(name: string): Promise<number>;
  /** Bytes of records that the sidecar has not shipped; asked without its metrics, which cost it more. */
  sidecarWaitingBytes(): Promise<number>;
  /** The HTTP server that the sidecar has chosen. */
  sidecarServer(): Promise<string>;
  /**
   * While `work` is done, nothing is measured: until then the control plane and its database have the core of
   * the sidecar too, so that what is left to ship is committed sooner.
   */
  withAllCores(work: () => Promise<void>): Promise<void>;
  /** Ends the control plane and its database, as an outage would. */
  stopControlPlane(): Promise<void>;
  /** Starts it again, over the same data; resolves when it is ready. */
  startControlPlane(): Promise<void>;
  stop(): Promise<void>;
}

/** A control plane with access to what it stores. */
export interface ControlPlane {
  readonly origin: string;
  /** `admin:*`; also what the callers of the sidecar present. */
  readonly apiKey: string;
  /** With which the signing keys in the database are sealed. */
  readonly masterKey: Uint8Array;
  /** A connection to the database; the caller ends it. */
  openDatabase(): Database;
  /** Calls `/v1`; throws for any answer but 2xx. */
  api(method: string, path: string, body?: object): Promise<Readonly<Record<string, unknown>>>;
}

/** A machine that others use too takes many times as long as a quiet one. */
const readyMsMax = 120_000;
/** The connection is silent while the database makes rows by the hundred thousand. */
const databaseSilenceMsMax = 600_000;

/** Of the PostgreSQL that a control plane keeps in its folder: a socket there. */
const databaseUrl = (dataDir: string): string =>
  socketUrl({ folder: join(dataDir, 'postgres', 'data'), database: 'postgres', user: 'agent_trust' });

interface InstallOptions {
  readonly measured?: 'sidecar' | 'control-plane';
  readonly sidecarSettings?: Readonly<Record<string, string>>;
  readonly controlPlaneSettings?: Readonly<Record<string, string>>;
  /** As taskset(1) takes a list of cores. Default: the measured one, or the other one. */
  readonly sidecarCores?: string;
  /**
   * As taskset(1) takes them. Default: the other core where the sidecar is measured, else the measured one.
   */
  readonly controlPlaneCores?: string;
  /** Default: the embedded one, which the control plane starts. */
  readonly database?: DatabaseKind;
  /** Where the files of the database lie. Default: beside the folder of the sidecar. */
  readonly controlPlaneFolder?: string;
  /** Beside a measured sidecar, it has the same priority as everything else. Default false. */
  readonly isControlPlaneHurried?: boolean;
  /** Of the Node.js that runs the sidecar. */
  readonly nodeOptions?: readonly string[];
  /** Fills the database before the sidecar starts, which then finds it all in its snapshot. */
  readonly seed?: (controlPlane: ControlPlane) => Promise<void>;
  /** No row has used it: what is counted there is of this one alone. */
  readonly isOwn?: true;
  /** Path of the command `agent-trust` of another build. Default: this one. */
  readonly command?: string;
}

/** Those that rows have in common; null: each row has its own. */
let common: Common | null = null;

interface Common {
  /** Path of the command that installations run. */
  readonly command: string;
  /** By the settings of the sidecar. */
  readonly running: Map<string, Promise<Installation>>;
}

/**
 * From now on installations that differ in nothing but where they run are one, as is enough where nothing is
 * measured: each takes seconds to start. What this returns ends them.
 */
export function shareInstallations(built: string): () => Promise<void> {
  const { command, running } = { command: join(built, 'deploy', 'agent-trust.js'), running: new Map() };
  common = { command, running };
  return async () => {
    common = null;
    for (const installation of running.values()) await (await installation).stop();
  };
}

/** A row that failed has ended their programs: they are started anew. */
export const forgetInstallations = (): void => common?.running.clear();

async function commonInstallation(
  { command, running }: Common,
  sidecarSettings: Readonly<Record<string, string>>,
): Promise<Installation> {
  const name = JSON.stringify(sidecarSettings);
  const started = running.get(name) ?? installAlone({ command, sidecarSettings });
  running.set(name, started);
  return { ...(await started), isCommon: true, stop: async () => undefined };
}

const commonOptions: ReadonlySet<string> = new Set<keyof InstallOptions>([
  ...(['measured', 'database', 'sidecarCores', 'controlPlaneCores', 'controlPlaneFolder'] as const),
  'sidecarSettings',
]);

/**
 * `measured` (default: the sidecar) is alone on its core; the control plane has its PostgreSQL with it.
 * In production the control plane is another machine; where the sidecar is measured it must not take the
 * processor from the load generator, and so has a lower priority.
 */
export async function install(options: InstallOptions = {}): Promise<Installation> {
  if (common === null) return installAlone(options);
  const isCommon = Object.keys(options).every((name) => commonOptions.has(name));
  if (isCommon) return commonInstallation(common, options.sidecarSettings ?? {});
  // What `nodeOptions` load goes by the files of the sources.
  return installAlone(options.nodeOptions === undefined ? { command: common.command, ...options } : options);
}

async function installAlone(options: InstallOptions): Promise<Installation> {
  const folder = newFolder('installation');
  const started: Started[] = [];
  try {
    return await installIn(folder, started, options);
  } catch (error) {
    for (const one of started.toReversed()) await one.stop();
    removeFolder(folder);
    throw error;
  }
}

/** The last one ends first. */
type Started = Pick<Program, 'stop'>;

async function installIn(
  folder: string,
  started: Started[],
  {
    measured = 'sidecar',
    sidecarSettings = {},
    controlPlaneSettings = {},
    sidecarCores = String(measured === 'sidecar' ? measuredCore : otherCore),
    controlPlaneCores = String(measured === 'sidecar' ? otherCore : measuredCore),
    database = 'embedded',
    controlPlaneFolder = folder,
    nodeOptions = [],
    isControlPlaneHurried = false,
    seed = async () => undefined,
    command = program,
  }: InstallOptions,
): Promise<Installation> {
  // PostgreSQL runs as a user of its own when this is run by root, and must be able to pass through.
  chmodSync(controlPlaneFolder, 0o711);
  const apiKey = `at_live_${randomBytes(24).toString('hex')}`;
  const origin = `http://127.0.0.1:${await freePort()}`;
  const sidecarOrigin = `http://127.0.0.1:${await freePort()}`;

  const masterKey = randomBytes(32);
  const dataDir = join(controlPlaneFolder, 'control-plane');
  const copy = await copiedDatabase();
  // In a brief run nothing is measured, and others may have all cores.
  const isNice = measured === 'sidecar' && !isControlPlaneHurried && copy === null;
  const postgres =
    copy === null && database === 'debian'
      ? await startDebianDatabase({ folder: controlPlaneFolder, cores: controlPlaneCores, isNice })
      : null;
  if (postgres !== null) started.push(postgres);
  const databaseAt = copy ?? postgres?.url ?? null;
  const startControlPlane = async () => {
    const one = start({
      core: controlPlaneCores,
      command: [...(isNice ? nicely : []), process.execPath, command, 'control-plane'],
      environment: {
        PORT: new URL(origin).port,
        ADMIN_API_KEY: apiKey,
        MASTER_KEY: masterKey.toString('base64url'),
        DATA_DIR: dataDir,
        LOG_LEVEL: 'warn',
        ...(databaseAt !== null && { DATABASE_URL: databaseAt }),
        ...controlPlaneSettings,
      },
    });
    started.push(one);
    if (isNice) keepSessionsNice(one);
    await ready(origin, one);
    return one;
  };
  let controlPlane = await startControlPlane();
  const api: Installation['api'] = async (method, path, body) => {
    const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
    const answer = await fetch(`${origin}/v1${path}`, {
      method,
      headers,
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path} answered ${answer.status}: ${text}`);
    return JSON.parse(text);
  };
  const url = databaseAt ?? databaseUrl(dataDir);
  const openDatabase = () => connect({ url, connectionsMax: 1, silenceMsMax: databaseSilenceMsMax });
  const seeded: ControlPlane = { origin, apiKey, masterKey, openDatabase, api };
  await seed(seeded);
  const { key } = await api('POST', '/api-keys', { name: 'bench', scopes: ['sidecars:connect'] });
  const metrics = async () => (await fetch(`${sidecarOrigin}/metrics`)).text();
  const sidecarProgram = start({
    core: sidecarCores,
    command: [process.execPath, ...nodeOptions, command, 'sidecar'],
    environment: {
      SIDECAR_PORT: new URL(sidecarOrigin).port,
      CONTROL_PLANE_URL: origin,
      SIDECAR_API_KEY: String(key),
      DATA_DIR: join(folder, 'sidecar'),
      LOG_LEVEL: 'warn',
      ...sidecarSettings,
    },
  });
  const sidecar: Program = { ...sidecarProgram, decisions: async () => decisionsOf(await metrics()) };
  started.push(sidecar);
  await ready(sidecarOrigin, sidecar);

  /** Each with all that it has started; the embedded database belongs to the control plane. */
  const trees = () => [controlPlane.pid, ...(postgres === null ? [] : [postgres.pid])];
  const pinTrees = (cores: string) => {
    for (const pid of trees()) pinTree(pid, cores);
  };
  return {
    isCommon: false,
    get controlPlane() {
      return controlPlane;
    },
    controlPlaneCpuSeconds: () => trees().reduce((sum, pid) => sum + cpuSecondsOfTree(pid), 0),
    sidecar,
    controlPlaneOrigin: origin,
    sidecarOrigin,
    ...seeded,
    withAllCores: async (work) => {
      pinTrees(bothCores);
      try {
        await work();
      } finally {
        pinTrees(controlPlaneCores);
      }
    },
    stopControlPlane: async () => {
      await controlPlane.stop();
      await postgres?.stop();
    },
    startControlPlane: async () => {
      await postgres?.start();
      controlPlane = await startControlPlane();
    },
    jwks: async () => (await fetch(`${origin}/.well-known/jwks.json`)).text(),
    sidecarMetric: async (name) => sumOf(name, await metrics()),
    sidecarWaitingBytes: async () => (await readinessAt(sidecarOrigin)).spool.bytes,
    sidecarServer: async () => (await readinessAt(sidecarOrigin)).server.name,
    stop: async () => {
      await sidecar.stop();
      await controlPlane.stop();
      await postgres?.stop();
      removeFolder(folder);
    },
  };
}

interface Readiness {
  readonly server: { readonly name: string };
  readonly spool: { readonly bytes: number };
}

/** `GET /readyz`, whatever its status. */
const readinessAt = async (origin: string): Promise<Readiness> =>
  (await (await fetch(`${origin}/readyz`)).json()) as Readiness;

const isSource = import.meta.url.endsWith('.ts');
/** The command, as it runs now. */
export const program = fileURLToPath(
  new URL(`../../deploy/agent-trust.${isSource ? 'ts' : 'js'}`, import.meta.url),
);

/**
 * Resolves when the program answers that it is ready; throws with what it said last where it does not become
 * so.
 */
export async function ready(origin: string, of: Program): Promise<void> {
  const deadline = performance.now() + readyMsMax;
  let hasEnded = false;
  void of.ended.then(() => {
    hasEnded = true;
  });
  for (;;) {
    const answer = await fetch(`${origin}/readyz`).catch(() => null);
    if (answer?.ok === true) return;
    if (hasEnded || performance.now() > deadline) {
      const output = await of.find(/(?!)/).catch(({ message }: Error) => message);
      const what = hasEnded ? 'ended before it was ready' : `was not ready after ${readyMsMax / 1_000} s`;
      throw new Error(`A program ${what}: look at its output, and whether others have its core.\n${output}`);
    }
    await pause(50);
  }
}

function decisionsOf(metrics: string): Decisions {
  const name = 'agent_trust_sidecar_decisions_total';
  return { made: sumOf(name, metrics), permitted: sumOf(`${name}{outcome="PERMIT"`, metrics) };
}

/** Prometheus text: `name{labels} value`. `name` may go on with the first of the labels. */
function sumOf(name: string, text: string): number {
  const lines = text
    .split('\n')
    .filter((line) => line.startsWith(name) && '{ ,}'.includes(line[name.length] ?? '-'));
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
}
