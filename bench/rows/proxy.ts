import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { projectRoot } from '../harness/builds.ts';
import { chargedSide } from '../harness/charged-side.ts';
import { measuredCore } from '../harness/cores.ts';
import { newFolder, removeFolder } from '../harness/folders.ts';
import { type Installation, install } from '../harness/installation.ts';
import { findProgram, freePort, type Program, start } from '../harness/programs.ts';
import { interleaved, warmUp } from '../harness/rounds.ts';
import type { BenchOptions } from '../harness/row.ts';
import { briefS } from '../harness/size.ts';
import { type Table, tableLine } from '../harness/table.ts';
import { wantedOf } from '../harness/targets.ts';
import { allShipped, newAgent } from '../harness/warm-load.ts';
import { drive, type Load } from '../harness/wrk.ts';

interface Contestant {
  readonly name: string;
  /** All that work for it on the measured core. */
  readonly programs: readonly Program[];
  readonly load: Load;
  readonly finish: () => Promise<void>;
  readonly does: string;
  readonly doesNot: string;
  readonly target: { readonly name: string; readonly wanted: number | null } | null;
}

/**
 * P22: requests per second through nginx with a check at a gate for each, and through nginx alone. nginx, the
 * service behind it and the sidecar share one core.
 */
export async function proxy({ size, say }: BenchOptions): Promise<Table> {
  const rounds = { full: 5, quick: 2, brief: 1 }[size];
  const secondsEach = { full: 2, quick: 1, brief: briefS }[size];
  const base = {
    ...{ row: 'proxy', title: 'nginx with forward auth, all on one core', unit: 'requests/s' },
    ...{ rounds, secondsEach },
  };
  const nginx = findProgram('nginx') ?? findProgram('/usr/sbin/nginx');
  if (nginx === null || findProgram('wrk') === null) {
    const reason = 'nginx or wrk is not installed (Debian: apt-get install nginx wrk).';
    return { ...base, lines: [], skipped: [{ side: 'everything', reason }], notes: [] };
  }
  const folder = newFolder('proxy');
  const stops: (() => Promise<void>)[] = [];
  try {
    const installation = await install({
      sidecarSettings: { FORWARD_AUTH_HEADERS: 'X-Forwarded-Method,X-Forwarded-Uri,X-Forwarded-Host' },
    });
    stops.push(() => installation.stop());
    const contestants = await prepare(nginx, installation, folder, stops);
    const sides = contestants.map(({ load, ...work }) =>
      chargedSide({ ...work, drive: (seconds) => drive(load, seconds) }),
    );
    await warmUp(sides, { size, seconds: secondsEach });
    const figures = await interleaved(sides, { rounds, seconds: secondsEach, say });
    for (const { load } of contestants) await mustServe(load);
    const lines = contestants.map((contestant) => tableLine(contestant, figures, contestants[0]?.name ?? ''));
    const serving = `The sidecar serves with ${await installation.sidecarServer()}.`;
    return { ...base, lines, skipped: [], notes: [...notes, serving] };
  } finally {
    for (const stop of stops.toReversed()) await stop();
    removeFolder(folder);
  }
}

const notes = [
  'wrk, one thread, 64 kept connections, closed loop, on the other core, together with the control plane and PostgreSQL at a lower priority.',
  'One worker of nginx with deploy/proxies/nginx.conf; alone, it has the same file without the lines that ask. The service is a second nginx that answers `return 200`: any real one costs more, and makes the ratio better.',
  'Processor time is that of nginx, the service and, where it is asked, the sidecar. Records that the sidecar has not shipped when its time is over are shipped then, and the processor time this takes is added.',
];

async function prepare(
  nginx: string,
  installation: Installation,
  folder: string,
  stops: (() => Promise<void>)[],
): Promise<readonly Contestant[]> {
  const gate = await installation.api('POST', '/gates', {
    name: 'bench',
    trust_level: 'L1',
    routes: [{ methods: ['POST'], path: '/orders', permission_key: 'orders:create' }],
  });
  const gateId = String(gate['gate_id']);
  const passport = await installation.api('POST', '/passports', {
    agent_id: newAgent(),
    permissions: ['orders:create'],
  });
  const servicePort = await freePort();
  const run = async (name: string, text: string, port: number): Promise<Program> => {
    const program = startNginx(nginx, join(folder, name), text);
    stops.push(() => program.stop());
    await listening(port);
    return program;
  };
  const quiet = 'access_log off; keepalive_requests 1000000;';
  const service = `server { listen 127.0.0.1:${servicePort}; location / { return 200 served; } }`;
  const serving = await run('service', `events {}\nhttp { ${quiet} ${service} }`, servicePort);

  const guarded = (port: number) =>
    readFileSync(configuration, 'utf8')
      .replaceAll('gate_REPLACE_ME', gateId)
      .replaceAll(':8000', `:${port}`)
      .replaceAll(':8090', `:${new URL(installation.sidecarOrigin).port}`)
      .replaceAll(':3000', `:${servicePort}`)
      .replace('http {', `http { ${quiet}`);
  const alone = (port: number) =>
    [
      [/^ *auth_request \/.*$/m, ''],
      [/^ *auth_request_set .*$/gm, ''],
      [/(map \$gate_decision \$permitted).*$/m, '$1 { default service; }'],
      [/\$gate_retry_after|\$passport_id|\$attestation_id|\$gate_reason/g, '""'],
      [/\$gate_decision/g, '$host'],
    ].reduce((text, [pattern, to]) => {
      const changed = text.replace(pattern as RegExp, to as string);
      if (changed === text) throw new Error(`nginx.conf has nothing like ${pattern}`);
      return changed;
    }, guarded(port));

  const contestant = async (name: string, text: (port: number) => string) => {
    const port = await freePort();
    const programs = [await run(name, text(port), port), serving];
    const load: Load = {
      url: `http://127.0.0.1:${port}/orders`,
      headers: { 'X-Agent-Passport': String(passport['jwt']), 'Content-Type': 'application/json' },
      body: '{"sku":"A-1027","quantity":3}',
      scriptPath: join(folder, `${name}.lua`),
    };
    await mustServe(load);
    return { load, programs };
  };
  const guardedNginx = await contestant('guarded', guarded);
  return [
    {
      name: 'nginx with forward auth',
      ...guardedNginx,
      programs: [...guardedNginx.programs, installation.sidecar],
      finish: () => allShipped(installation, [gateId]),
      does: 'asks the sidecar about each request: passport from its cache with all times and revocations checked again, route, permission, a record before the answer, records shipped',
      doesNot: 'limits',
      target: null,
    },
    {
      name: 'nginx alone',
      ...(await contestant('alone', alone)),
      finish: async () => undefined,
      does: 'passes the same requests to the same service',
      doesNot: 'any decision',
      target: wantedOf('P22'),
    },
  ];
}

const configuration = join(projectRoot, 'deploy', 'proxies', 'nginx.conf');

/** One process in the foreground, which is the worker too. */
function startNginx(nginx: string, path: string, text: string): Program {
  writeFileSync(`${path}.conf`, text);
  const main = `daemon off; master_process off; pid ${path}.pid;`;
  return start({
    core: measuredCore,
    command: [nginx, '-c', `${path}.conf`, '-e', 'stderr', '-g', main],
  });
}

const readyMsMax = 15_000;

async function listening(port: number): Promise<void> {
  const deadline = performance.now() + readyMsMax;
  while ((await fetch(`http://127.0.0.1:${port}/`).catch(() => null)) === null) {
    if (performance.now() > deadline) throw new Error(`nginx does not listen on port ${port}`);
    await pause(20);
  }
}

/** Throws unless a request reaches the service, because refusing is fast. */
async function mustServe({ url, headers, body }: Load): Promise<void> {
  const deadline = performance.now() + readyMsMax;
  for (;;) {
    const answer = await fetch(url, { method: 'POST', headers, body });
    const text = await answer.text();
    if (answer.status === 200 && text === 'served') return;
    // A new gate is on its way to the sidecar.
    if (performance.now() > deadline) throw new Error(`${url} answered ${answer.status} ${text}`);
    await pause(50);
  }
}
