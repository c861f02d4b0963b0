import { randomBytes } from 'node:crypto';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { freePort, measuredCore, otherCore, type Program, start } from './programs.ts';

/**
 * The real programs: one of them alone on the measured core, the other one on the other core, beside the load
 * generator.
 */
export interface Installation {
  readonly controlPlane: Program;
  readonly sidecar: Program;
  readonly sidecarOrigin: string;
  /** `admin:*`; also what the callers of the sidecar present. */
  readonly apiKey: string;
  /** Calls `/v1` of the control plane; throws for any answer but 2xx. */
  api(method: string, path: string, body?: object): Promise<Readonly<Record<string, unknown>>>;
  /** The public key set, as JSON text. */
  jwks(): Promise<string>;
  /** Of one counter or gauge at the sidecar, all its labels together; 0 where there is none. */
  sidecarMetric(name: string): Promise<number>;
  /** The HTTP server that the sidecar has chosen. */
  sidecarServer(): Promise<string>;
  stop(): Promise<void>;
}

const readyMsMax = 30_000;

/**
 * `measured` (default: the sidecar) is alone on its core; the control plane has its embedded PostgreSQL with
 * it. In production the control plane is another machine; where the sidecar is measured it must not take the
 * processor from the load generator, and so has a lower priority.
 */
export async function install({
  measured = 'sidecar',
  sidecarSettings = {},
}: {
  readonly measured?: 'sidecar' | 'control-plane';
  readonly sidecarSettings?: Readonly<Record<string, string>>;
} = {}): Promise<Installation> {
  const isSidecarMeasured = measured === 'sidecar';
  const folder = mkdtempSync(join(tmpdir(), 'agent-trust-bench-'));
  // PostgreSQL runs as a user of its own when this is run by root, and must be able to pass through.
  chmodSync(folder, 0o711);
  const apiKey = `at_live_${randomBytes(24).toString('hex')}`;
  const origin = `http://127.0.0.1:${await freePort()}`;
  const sidecarOrigin = `http://127.0.0.1:${await freePort()}`;

  const controlPlane = start({
    core: isSidecarMeasured ? otherCore : measuredCore,
    command: [...(isSidecarMeasured ? ['nice', '-n', '10'] : []), process.execPath, program, 'control-plane'],
    environment: {
      PORT: new URL(origin).port,
      ADMIN_API_KEY: apiKey,
      DATA_DIR: join(folder, 'control-plane'),
      LOG_LEVEL: 'warn',
    },
  });
  await ready(origin, controlPlane);
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
  const { key } = await api('POST', '/api-keys', { name: 'bench', scopes: ['sidecars:connect'] });
  const sidecar = start({
    core: isSidecarMeasured ? measuredCore : otherCore,
    command: [process.execPath, program, 'sidecar'],
    environment: {
      SIDECAR_PORT: new URL(sidecarOrigin).port,
      CONTROL_PLANE_URL: origin,
      SIDECAR_API_KEY: String(key),
      DATA_DIR: join(folder, 'sidecar'),
      LOG_LEVEL: 'warn',
      ...sidecarSettings,
    },
  });
  await ready(sidecarOrigin, sidecar);

  return {
    controlPlane,
    sidecar,
    sidecarOrigin,
    apiKey,
    api,
    jwks: async () => (await fetch(`${origin}/.well-known/jwks.json`)).text(),
    sidecarMetric: async (name) => sumOf(name, await (await fetch(`${sidecarOrigin}/metrics`)).text()),
    sidecarServer: async () => {
      const readiness = await (await fetch(`${sidecarOrigin}/readyz`)).json();
      return (readiness as { readonly server: { readonly name: string } }).server.name;
    },
    stop: async () => {
      await sidecar.stop();
      await controlPlane.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

const isSource = import.meta.url.endsWith('.ts');
/** The command, as it runs now. */
export const program = fileURLToPath(
  new URL(`../deploy/agent-trust.${isSource ? 'ts' : 'js'}`, import.meta.url),
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
      // Whatever it said last tells why.
      await of.find(/(?!)/);
    }
    await pause(50);
  }
}

/** Prometheus text: `name{labels} value`. `name` may go on with the first of the labels. */
function sumOf(name: string, text: string): number {
  const lines = text
    .split('\n')
    .filter((line) => line.startsWith(name) && '{ ,}'.includes(line[name.length] ?? '-'));
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
}
