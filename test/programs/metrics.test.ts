import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../support/base/free-port.ts';
import { call } from '../support/base/http-client.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { until } from '../support/base/until.ts';
import { bundledPrograms, type Program } from '../support/programs/programs.ts';
import { sharedService } from '../support/run/shared-services.ts';

/** `/metrics` of both programs as they run. */
let folder: ReturnType<typeof temporaryFolder>;
let program: Program;
let controlPlane: string;
let sidecar: string;
let promtool: string;

async function start(env: Readonly<Record<string, string>> = {}): Promise<void> {
  const ports = { PORT: String(await freePort()), SIDECAR_PORT: String(await freePort()) };
  controlPlane = `http://127.0.0.1:${ports.PORT}`;
  sidecar = `http://127.0.0.1:${ports.SIDECAR_PORT}`;
  program = (await bundledPrograms()).start(['start'], {
    ...ports,
    DATA_DIR: join(folder.path, 'data'),
    ...env,
  });
  await program.waitFor(/agent-trust is ready/);
}

const metricsOf = async (origin: string): Promise<string> => (await fetch(`${origin}/metrics`)).text();

/** The value of a series, by its whole name with labels; undefined where there is none. */
const sampleOf = (text: string, series: string): number | undefined => {
  const line = text.split('\n').find((each) => each.startsWith(`${series} `));
  return line === undefined ? undefined : Number(line.slice(series.length + 1));
};

beforeAll(async () => {
  promtool = await sharedService('promtool');
  folder = temporaryFolder();
  await start();
});
afterAll(async () => {
  await program.stop();
  folder.remove();
});

const promtoolOn = (text: string) => {
  const { status, stdout, stderr } = spawnSync(promtool, ['check', 'metrics'], {
    input: text,
    encoding: 'utf8',
  });
  return { status, said: stdout + stderr };
};

describe('after a decision', () => {
  const ids: string[] = [];

  beforeAll(async () => {
    const key = readFileSync(join(folder.path, 'data/admin-api-key'), 'utf8').trim();
    const post = (url: string, body: object) => call(url, { key, body });
    const gate = (await post(`${controlPlane}/v1/gates`, { name: 'g', trust_level: 'L1' })).body;
    const passport = (
      await post(`${controlPlane}/v1/passports`, { agent_id: 'agent-of-metrics', permissions: ['a:b'] })
    ).body;
    ids.push(gate.gate_id, passport.passport_id, 'agent-of-metrics');
    const check = () =>
      post(`${sidecar}/v1/gates/${gate.gate_id}/check`, {
        passport: passport.jwt,
        request: { permission_key: 'a:b' },
      });
    // The gate has to reach the sidecar first.
    await until(async () => (await check()).body.decision === 'PERMIT', { what: 'a PERMIT' });
    await call(`${sidecar}/v1/enforce`, { body: {} });
  });

  it('both programs have names and types as Prometheus wants them, and no id in a label', async () => {
    for (const origin of [controlPlane, sidecar]) {
      const text = await metricsOf(origin);
      expect(promtoolOn(text)).toEqual({ status: 0, said: '' });
      for (const id of ids) expect(text).not.toContain(id);
      expect(text).not.toMatch(/\b(?:gate|pass|acct|key|side|iss)_[0-9a-z]{26}\b/);
    }
  });
});

it('where uWebSockets.js does not load, the slower server says so in log and metrics', async () => {
  await program.stop();
  const hook = join(folder.path, 'no-uws.mjs');
  writeFileSync(
    hook,
    `import { register } from 'node:module';
     register('data:text/javascript,' + encodeURIComponent(
       "export const resolve = (name, context, next) => { if (name === 'uWebSockets.js') throw new Error('no binary here'); return next(name, context); };"));`,
  );
  await start({ NODE_OPTIONS: `--import=${hook}` });
  await program.waitFor(/"level":"warn".*no binary here.*node:http answers instead/);
  const text = await metricsOf(sidecar);
  expect(sampleOf(text, 'agent_trust_sidecar_http_fallback')).toBe(1);
  expect(text).toContain('server="node:http"');
});
