import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../support/base/free-port.ts';
import { call } from '../support/base/http-client.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { until } from '../support/base/until.ts';
import { bundledPrograms, type Program } from '../support/programs/programs.ts';

const flooder = fileURLToPath(new URL('../support/peers/flood-stream.mjs', import.meta.url));
const floodMs = 3_000;

describe.each(['uws', 'node'])('everything on one machine, with SIDECAR_HTTP=%s', (server) => {
  let folder: ReturnType<typeof temporaryFolder>;
  let program: Program;
  let sidecar: string;
  let controlPlane: string;
  let key: string;
  let gateId: string;
  let passport: string;

  beforeAll(async () => {
    folder = temporaryFolder();
    const ports = { controlPlane: await freePort(), sidecar: await freePort() };
    program = (await bundledPrograms()).start(['start'], {
      PORT: String(ports.controlPlane),
      SIDECAR_PORT: String(ports.sidecar),
      DATA_DIR: join(folder.path, 'data'),
      SIDECAR_HTTP: server,
    });
    await program.waitFor(/agent-trust is ready/);
    sidecar = `http://127.0.0.1:${ports.sidecar}`;
    controlPlane = `http://127.0.0.1:${ports.controlPlane}`;
    key = readFileSync(join(folder.path, 'data', 'admin-api-key'), 'utf8').trim();
    const post = (path: string, body: object) => call(`${controlPlane}/v1${path}`, { key, body });
    gateId = (await post('/gates', { name: 'Shop', trust_level: 'L1' })).body.gate_id;
    passport = (await post('/passports', { agent_id: 'flooder', permissions: ['orders:*'] })).body.jwt;
  });
  afterAll(async () => {
    if (program?.isRunning) await program.stop('SIGKILL');
    folder?.remove();
  });

  const check = () =>
    call(`${sidecar}/v1/gates/${gateId}/check`, {
      key,
      body: { passport, request: { permission_key: 'orders:create' } },
    });

  it.each([
    ['the id first', true],
    ['the id last', false],
  ])(
    'answers others while eight streams send frames of 2 KB as fast as they go, %s',
    async (_what, idFirst) => {
      await until(async () => (await check()).status === 200, { what: 'a first PERMIT' });
      const options = { port: Number(new URL(sidecar).port), key, gateId, passport, streams: 8, idFirst };
      const flood = spawn(process.execPath, [flooder, JSON.stringify(options)], {
        stdio: ['pipe', 'pipe', 'inherit'],
      });
      let said = '';
      flood.stdout.on('data', (text) => {
        said += String(text);
      });
      await until(() => said.includes('flooding'), { what: 'a flood' });
      const waits: number[] = [];
      let permits = 0;
      const endsAtMs = performance.now() + floodMs;
      while (performance.now() < endsAtMs) {
        const beganAtMs = performance.now();
        const [decided, alive] = await Promise.all([check(), call(`${controlPlane}/livez`)]);
        waits.push(performance.now() - beganAtMs);
        // On a crowded machine its own deadline may pass.
        if (decided.status === 200) permits += 1;
        else expect(decided.body.error.code).toBe('overloaded');
        expect(alive.status).toBe(200);
      }
      flood.stdin.end();
      await once(flood, 'close');
      waits.sort((a, b) => a - b);
      const shown = `${said} ${waits.length} waits, median ${waits[waits.length >> 1]} ms, longest ${waits.at(-1)} ms`;
      if (process.env['SHOW'] !== undefined) console.log(server, idFirst, shown);
      const seen = JSON.parse(/\{.*\}/.exec(said)?.[0] ?? '');
      expect(seen, shown).toMatchObject({ nameless: 0, others: 0 });
      if (server === 'node') {
        // The client waits, and all that it sends is decided.
        expect(seen.overloaded, shown).toBeLessThan(seen.permits);
        expect(seen.closed, shown).toBe(0);
      }
      // Without a bound the first of them waited for as long as the flood lasted. How long a turn of the loop
      // takes depends on who else uses the machine.
      expect(permits, shown).toBeGreaterThan(waits.length / 2);
      expect(waits[waits.length >> 1], shown).toBeLessThan(1_000);
      // And afterwards as ever.
      await until(
        async () => {
          const beganAtMs = performance.now();
          const { body } = await check();
          return body.decision === 'PERMIT' && performance.now() - beganAtMs < 100;
        },
        { what: 'a quick PERMIT' },
      );
    },
  );
});
