import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Contestant } from '../harness/contestant.ts';
import { measuredCore } from '../harness/cores.ts';
import { freePort, start } from '../harness/programs.ts';
import { wantedOf } from '../harness/targets.ts';

/**
 * Cerbos on the measured core, asked over HTTP about one action on one resource, with the passport as an
 * EdDSA token whose signature it checks against the key set of the installation.
 */
export async function startCerbos(options: {
  readonly folder: string;
  /** Of the npm package `cerbos`. */
  readonly packagePath: string;
  readonly jwks: string;
  readonly passport: string;
  readonly request: Readonly<Record<string, unknown>>;
  readonly perTransactionUsd: number;
}): Promise<Contestant> {
  const folder = join(options.folder, 'cerbos');
  mkdirSync(join(folder, 'policies'), { recursive: true });
  const [http, grpc] = [await freePort(), await freePort()];
  writeFileSync(join(folder, 'jwks.json'), options.jwks);
  writeFileSync(join(folder, 'policies', 'order.yaml'), policy(options.perTransactionUsd));
  writeFileSync(join(folder, 'config.yaml'), configuration(folder, { http, grpc }));
  // At `info` it writes two lines about each request, at `warn` one about a claim of the passport, a null.
  const quiet = '--log-level=error';
  const command = [binaryOf(options.packagePath), 'server', quiet, `--config=${join(folder, 'config.yaml')}`];
  const program = start({ core: measuredCore, command, environment: { HOME: folder } });
  return {
    name: 'Cerbos',
    program,
    load: {
      url: `http://127.0.0.1:${http}/api/check/resources`,
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({
        principal: { id: 'bench-agent', roles: ['agent'] },
        resources: [
          { actions: ['create'], resource: { kind: 'order', id: 'A-1027', attr: options.request } },
        ],
        auxData: { jwt: { token: options.passport, keySetId: 'bench' } },
      }),
      scriptPath: join(folder, 'cerbos.lua'),
      permit: 'EFFECT_ALLOW',
      permitsEach: 1,
    },
    finish: null,
    does: 'checks the EdDSA token (it keeps those it knows), the permission among its claims and the amount, by a compiled policy',
    doesNot: 'key of the caller, revocation, domain, record of the decision, limits, a log of requests',
    target: wantedOf('P4'),
  };
}

/** The program is in a package of its own for each platform, beside the one that was asked for. */
function binaryOf(packagePath: string): string {
  const name = `cerbos-${process.platform}-${process.arch}`;
  return join(packagePath, '..', '@cerbos', name, name);
}

const configuration = (folder: string, ports: { readonly http: number; readonly grpc: number }): string => `
server:
  httpListenAddr: "127.0.0.1:${ports.http}"
  grpcListenAddr: "127.0.0.1:${ports.grpc}"
telemetry:
  disabled: true
audit:
  enabled: false
auxData:
  jwt:
    keySets:
      - id: bench
        local:
          file: ${folder}/jwks.json
storage:
  driver: disk
  disk:
    directory: ${folder}/policies
    watchForChanges: false
`;

const policy = (perTransactionUsd: number): string => `
apiVersion: api.cerbos.dev/v1
resourcePolicy:
  version: default
  resource: order
  rules:
    - actions: ["create"]
      effect: EFFECT_ALLOW
      roles: ["agent"]
      condition:
        match:
          expr: >
            "orders:create" in request.aux_data.jwt.permissions && R.attr.amount <= ${perTransactionUsd}.0
`;
