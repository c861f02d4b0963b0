import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { chargedSide } from '../harness/charged-side.ts';
import { mustPermit } from '../harness/contestant.ts';
import { measuredCore } from '../harness/cores.ts';
import { newFolder, removeFolder } from '../harness/folders.ts';
import { type Installation, install } from '../harness/installation.ts';
import { type Program, peer, start } from '../harness/programs.ts';
import { interleaved, type Side, warmUp } from '../harness/rounds.ts';
import type { BenchOptions } from '../harness/row.ts';
import { briefS } from '../harness/size.ts';
import { type Table, tableLine } from '../harness/table.ts';
import { wantedOf } from '../harness/targets.ts';
import { allShipped, benchGate, checkLoad } from '../harness/warm-load.ts';
import type { Driven } from '../harness/wrk.ts';
import { drive, lackOfWrk } from '../harness/wrk.ts';

/** As many as wrk keeps connections. */
const inFlight = 64;

const lines = [
  {
    name: 'embedded',
    does: 'check(token, object): signature known, permission, domain, spend, hash, record spooled and shipped',
    doesNot: 'HTTP, the key of a caller, JSON text of request and answer',
    target: null,
  },
  {
    name: 'sidecar over HTTP',
    does: 'the same, and a request and an answer of HTTP for each decision',
    doesNot: 'the work of the caller: wrk is on the other core',
    target: wantedOf('P23'),
  },
] as const;

/** P23: decisions in the process that asks beside a sidecar that is asked over HTTP. */
export async function embedded({ size, built, say }: BenchOptions): Promise<Table> {
  const rounds = { full: 5, quick: 2, brief: 1 }[size];
  // Records are made faster than one control plane commits them, and each round waits for its own.
  const secondsEach = { full: 2, quick: 1, brief: briefS }[size];
  const base = {
    row: 'embedded',
    title: 'Warm decisions in the process that asks, on one core',
    unit: 'decisions/s',
    rounds,
    secondsEach,
  };
  const reason = lackOfWrk();
  if (reason !== null) {
    return { ...base, lines: [], skipped: [{ side: 'everything', reason }], notes: [] };
  }
  const folder = newFolder('embedded');
  const installation = await install();
  let service: Program | null = null;
  try {
    const asked: Asked = { installation, folder, ...(await benchGate(installation)), decided: 0 };
    service = await startService(asked, join(built, 'sidecar', 'embedded', 'start-embedded.js'));
    const sides = [await embeddedSide(asked, service), await servedSide(asked)];
    await warmUp(sides, { size, seconds: secondsEach });
    const figures = await interleaved(sides, { rounds, seconds: secondsEach, say });
    return {
      ...base,
      lines: lines.map((line) => tableLine(line, figures, 'embedded')),
      skipped: [],
      notes: [
        `Embedded: a service that asks in a closed loop with ${inFlight} calls under way; it is the load, and its time counts. Over HTTP: wrk, one thread, 64 kept connections, on the other core; its time does not count.`,
        'Both ask about one passport and one request at one gate; every answer is a PERMIT. Records that are not shipped when the time of a side is over are shipped then, and the processor time this takes is added to the time it is charged.',
        `The sidecar serves with ${await installation.sidecarServer()}.`,
      ],
    };
  } finally {
    await service?.stop();
    await installation.stop();
    removeFolder(folder);
  }
}

/** What both sides ask, and what they have decided. */
export interface Asked {
  readonly installation: Installation;
  readonly folder: string;
  readonly gateId: string;
  readonly passport: string;
  readonly request: object;
  /** Decisions of the service so far. */
  decided: number;
}

/** `embedded`: what the service imports as `agent-trust/embedded`. */
export async function startService(
  { installation, folder, ...asked }: Asked,
  embedded: string,
): Promise<Program> {
  const { key } = await installation.api('POST', '/api-keys', {
    name: 'embedded',
    scopes: ['sidecars:connect'],
  });
  return start({
    core: measuredCore,
    command: peer('embedded-service'),
    environment: {
      EMBEDDED: pathToFileURL(embedded).href,
      CONTROL_PLANE_URL: installation.controlPlaneOrigin,
      SIDECAR_API_KEY: String(key),
      DATA_DIR: join(folder, 'service'),
      GATE_ID: asked.gateId,
      PASSPORT: asked.passport,
      REQUEST: JSON.stringify(asked.request),
      IN_FLIGHT: String(inFlight),
    },
  });
}

export async function embeddedSide(
  asked: Asked,
  service: Program,
  name: string = lines[0].name,
): Promise<Side> {
  const [, port] = await service.find(/^port (\d+)$/m);
  return chargedSide({
    name,
    programs: [service],
    drive: async (seconds): Promise<Driven> => {
      const answer = await fetch(`http://127.0.0.1:${port}/run?seconds=${seconds}`);
      if (!answer.ok) throw new Error(await answer.text());
      const run = (await answer.json()) as { readonly decisions: number; readonly seconds: number };
      asked.decided += run.decisions;
      return { done: run.decisions, seconds: run.seconds, generatorCpuSeconds: 0 };
    },
    finish: () => allShipped(asked.installation, [asked.gateId], asked.decided),
  });
}

async function servedSide(asked: Asked): Promise<Side> {
  const { installation, folder, gateId, passport, request } = asked;
  const load = checkLoad(installation, {
    ...{ gateId, body: { passport, request }, scriptPath: join(folder, 'single.lua') },
  });
  const { name } = lines[1];
  await mustPermit({ name, load });
  return chargedSide({
    name,
    programs: [installation.sidecar],
    drive: (seconds) => drive({ ...load, permitsEach: 1 }, seconds),
    finish: () => allShipped(installation, [gateId], asked.decided),
  });
}
