import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../support/base/free-port.ts';
import { untilAnswer } from '../support/base/until.ts';
import { fencedBlock } from '../support/data/verify-example.ts';
import { addAgentTrust, type InstalledClient, installClient, root, run } from './support/installed-client.ts';
import { type ClientService, startClientService } from './support/service.ts';

/**
 * What is installed with every service; it grows with the operations of the API, whose types and their texts
 * are a third of it: with conditions, facts, shadows, backtests and users of agents it is 84 KB. Types that
 * come twice cost little, once compressed. The code is readable: minified it was a tenth less.
 */
const packedBytesMax = 88_000;
/** On a terminal: some lines of source and stack. A minified file was 5 KB of one line. */
const shownBytesMax = 1_024;
const lineCharsMax = 250;

let installed: InstalledClient;
beforeAll(async () => {
  const others = ['express', 'fastify', 'hono', '@hono/node-server', '@types/node', '@types/express'];
  installed = await installClient(others);
  await addAgentTrust(installed.folder);
});
afterAll(() => installed.remove());

const manifest = () => JSON.parse(readFileSync(join(root, 'clients/node/package.json'), 'utf8'));
const entries = (): readonly string[] =>
  Object.keys(manifest().exports).filter((name) => name !== './package.json');
const specifierOf = (entry: string) => `@agent-trust/node${entry.slice(1)}`;

describe('the package', () => {
  it(`is under ${packedBytesMax} bytes, without dependencies`, () => {
    expect(installed.packed.size).toBeLessThan(packedBytesMax);
    expect(manifest().dependencies).toBeUndefined();
    const own = readdirSync(join(installed.folder, 'node_modules/@agent-trust/node'));
    expect(own.toSorted()).toEqual(['README.md', 'dist', 'package.json']);
  });

  it('holds code with types, and names no file that it lacks', () => {
    const paths = installed.packed.files.map(({ path }) => path);
    for (const path of paths.filter((each) => each.startsWith('dist/'))) {
      expect(path).toMatch(/\.(?:js|d\.ts)$/);
      const text = readFileSync(join(installed.folder, 'node_modules/@agent-trust/node', path), 'utf8');
      expect(text).not.toContain('sourceMappingURL');
      // TypeScript itself finds `./file.d.ts` for `./file.ts`; Node.js does not.
      if (path.endsWith('.js')) expect(text).not.toMatch(/from ?['"]\.[^'"]*\.ts['"]/);
    }
    for (const { types, default: code } of Object.values<{ types?: string; default?: string }>(
      manifest().exports,
    )) {
      for (const path of [types, code]) if (path !== undefined) expect(paths).toContain(path.slice(2));
    }
  });

  it('is imported by every name that it exports, from a folder with nothing else', async () => {
    const script = entries().map(
      (entry) => `console.log(Object.keys(await import('${specifierOf(entry)}')).length)`,
    );
    const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script.join('\n')], {
      cwd: installed.folder,
    });
    const counts = stdout.trim().split('\n').map(Number);
    expect(counts).toHaveLength(entries().length);
    expect(counts.every((count) => count > 0)).toBe(true);
  });

  it('shows the line that threw, and not a whole file', async () => {
    const dist = join(installed.folder, 'node_modules/@agent-trust/node/dist');
    for (const path of readdirSync(dist, { recursive: true, encoding: 'utf8' })) {
      if (!path.endsWith('.js')) continue;
      const lines = readFileSync(join(dist, path), 'utf8').split('\n');
      expect(Math.max(...lines.map((line) => line.length)), path).toBeLessThan(lineCharsMax);
    }
    const thrown = [
      ["import { Sidecar } from '@agent-trust/node'; new Sidecar({ url: 'x', apiKey: 'a' })", 'TypeError'],
      [
        "import { AgentTrust } from '@agent-trust/node'; await new AgentTrust({ url: 'http://127.0.0.1:1', apiKey: 'a' }).gates.get('gate_1')",
        'ConnectionError',
      ],
      [
        "import { verifyWebhook } from '@agent-trust/node/verify'; await verifyWebhook('', {}, 'none')",
        'TypeError',
      ],
      [
        "import { expressGuard } from '@agent-trust/node/express'; await expressGuard()({})({ method: 'GET', headers: {} }, {}, (error) => { throw error; })",
        'TypeError',
      ],
    ] as const;
    for (const [script, name] of thrown) {
      const failed = await run(process.execPath, ['--input-type=module', '-e', script], {
        cwd: installed.folder,
      }).then(
        () => ({ stderr: 'nothing was thrown' }),
        (error: { stderr: string }) => error,
      );
      // Paths of the folder of this test are longer than those of a service.
      const shown = failed.stderr.replaceAll(installed.folder, '/srv');
      expect(shown, script).toContain(name);
      expect(Buffer.byteLength(shown), shown).toBeLessThan(shownBytesMax);
    }
  });

  it('verifies without anything of Node.js, as in a browser', async () => {
    const folder = join(installed.folder, 'node_modules/@agent-trust/node/dist');
    const seen = new Set(['verify.js']);
    for (const path of seen) {
      const code = readFileSync(join(folder, path), 'utf8');
      for (const [, name = ''] of code.matchAll(/from ?['"]([^'"]+)['"]/g)) {
        expect(name).toMatch(/^\.\.?\//);
        seen.add(join(path, '..', name));
      }
    }
    expect(seen.size).toBeGreaterThan(3);
    const page = readFileSync(join(root, 'docs/verify.md'), 'utf8');
    const [file, jwks] = [fencedBlock(page, 'jsonl'), fencedBlock(page, 'json')];
    const script = `
      const { verifyAttestations } = await import('@agent-trust/node/verify');
      const { log } = console;
      for (const name of ['process', 'Buffer', 'global']) delete globalThis[name];
      log(JSON.stringify(await verifyAttestations(${JSON.stringify(file)}, ${jwks})));`;
    const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script], {
      cwd: installed.folder,
    });
    expect(JSON.parse(stdout)).toMatchObject({ valid: true, records: 3 });
  });

  it('has types that a strict program compiles with, its libraries checked too', async () => {
    writeFileSync(join(installed.folder, 'program.ts'), programWithTypes);
    const options =
      '--noEmit --strict --exactOptionalPropertyTypes --module nodenext --target es2023 --types node';
    const tsc = join(root, 'node_modules/.bin/tsc');
    const { stdout } = await run(tsc, ['--ignoreConfig', ...options.split(' '), 'program.ts'], {
      cwd: installed.folder,
    }).catch((failed: { stdout: string }) => failed);
    expect(stdout).toBe('');
  });
});

/** What a user may rely on at compile time; each `@ts-expect-error` is an error that must be one. */
const programWithTypes = `
import { AgentTrust, Sidecar } from '@agent-trust/node';
import { expressGuard } from '@agent-trust/node/express';
import { fastifyGuard } from '@agent-trust/node/fastify';
import { honoGuard } from '@agent-trust/node/hono';
import { httpGuard } from '@agent-trust/node/http';
import { startEmbedded } from 'agent-trust/embedded';
import express from 'express';
import fastify from 'fastify';
import { Hono } from 'hono';

const sidecar = new Sidecar({ apiKey: 'at_live_' });
const trust = await startEmbedded({ controlPlaneUrl: 'http://127.0.0.1:8080', apiKey: 'at_live_' });
expressGuard({ sidecar: trust, controlPlaneUrl: 'http://127.0.0.1:8080' });
const decision = await sidecar.check('gate_1', { passport: '', request: { permission_key: 'a:b' } });
switch (decision.decision) {
  case 'PERMIT': { const id: string = decision.attestation_id; void id; break; }
  case 'SUSPEND': { const id: string = decision.approval_id; void id; break; }
  case 'BLOCK': { const text: string = decision.detail; void text; break; }
  case 'UNAVAILABLE': { const id: string | null = decision.request_id; void id; break; }
  default: { const none: never = decision; void none; }
}
// @ts-expect-error a decision that is no PERMIT may have no record
const record: string = decision.attestation_id;
const agentTrust = new AgentTrust({ apiKey: 'at_live_' });
for await (const gate of agentTrust.gates.list()) { const name: string = gate.name; void name; }
// @ts-expect-error a misspelt field
await agentTrust.gates.create({ nam: 'x', trust_level: 'L1' });
// @ts-expect-error no such status
await agentTrust.approvals.list({ status: 'open' });

const setup = { sidecar, controlPlaneUrl: '' };
const options = { gate: 'gate_1', permission: 'a:b' };
express().post('/', expressGuard(setup)({ ...options, amount: (req) => req.body.amount }), (req, res) => {
  res.json(req.agentTrust?.attestation_id);
});
fastify().post('/', { preHandler: fastifyGuard(setup)(options) }, async (request) => request.agentTrust?.decision);
fastify().post<{ Body: { amount: number } }>('/typed', { preHandler: fastifyGuard(setup)(options) }, async (request) =>
  request.body.amount,
);
new Hono().post('/', honoGuard(setup)(options), (c) => c.json(c.get('agentTrust').decision));
httpGuard(setup)(options, (request, response) => response.end(request.agentTrust.decision));
void record;
`;

/** Guards. What prepares an account runs in test/api/authzen-certification.test.ts. */
const examples = readdirSync(join(root, 'examples')).filter(
  (name) => name.endsWith('.mjs') && name !== 'authzen-certification.mjs',
);

describe('the examples', () => {
  let service: ClientService;
  let gate: string;
  let passport: string;
  let sidecarKey: string;
  const children: ChildProcess[] = [];
  beforeAll(async () => {
    service = await startClientService();
    gate = (await service.agentTrust.gates.create({ name: 'Orders', trust_level: 'L1' })).gate_id;
    const issued = await service.agentTrust.passports.issue({
      agent_id: 'buyer',
      permissions: ['orders:create'],
    });
    passport = issued.jwt ?? '';
    sidecarKey = (await service.api.createKey({ scopes: ['sidecars:connect'] })).key;
    await service.testSidecar.caughtUp();
  });
  afterAll(async () => {
    for (const child of children) {
      const gone = once(child, 'exit');
      if (child.kill()) await gone;
    }
    await service.close();
  });

  it.each(examples)('%s runs, and is what its page shows', async (name) => {
    const source = readFileSync(join(root, 'examples', name), 'utf8');
    const page = readFileSync(join(root, 'docs/integrations', name.replace('.mjs', '.md')), 'utf8');
    expect(page).toContain(`\`\`\`js\n${source}\`\`\`\n`);

    writeFileSync(join(installed.folder, name), source);
    const port = await freePort();
    const env = {
      ...{ AGENT_TRUST_API_KEY: service.api.adminKey, GATE_ID: gate, PORT: String(port) },
      ...{ SIDECAR_URL: service.testSidecar.origin, CONTROL_PLANE_URL: service.url },
      ...{ SIDECAR_API_KEY: sidecarKey, DATA_DIR: join(installed.folder, 'data') },
    };
    const child = spawn(process.execPath, [name], {
      cwd: installed.folder,
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    children.push(child);
    const [line] = await once(child.stdout, 'data');
    expect(String(line)).toBe(`listening on ${port}\n`);

    const orderOnce = async (headers: Record<string, string>, amount: number): Promise<[number, unknown]> => {
      const response = await fetch(`http://127.0.0.1:${port}/orders?item=tea&amount=${amount}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify({ item: 'tea', amount }),
      });
      return [response.status, await response.json()];
    };
    // The program has the usual deadline, within which a busy machine may not decide.
    const order = (headers: Record<string, string>, amount = 5) =>
      untilAnswer(
        () => orderOnce(headers, amount),
        ([status]) => status !== 503,
        { what: 'an answer that stays' },
      );
    expect(await order({ 'x-agent-passport': passport })).toEqual([
      201,
      { ordered: 'tea', record: expect.stringMatching(/^att_/) },
    ]);
    expect((await order({}))[0]).toBe(401);
    // Also where the error comes from another copy of the package.
    expect((await order({ 'x-agent-passport': passport }, -1))[0]).toBe(400);
  });

  it('keep the record of an answer that a service with the decisions in it has got before it crashes', async () => {
    const program = (afterwards: string) => `
      import { startEmbedded } from 'agent-trust/embedded';
      const { CONTROL_PLANE_URL: controlPlaneUrl, SIDECAR_API_KEY: apiKey, GATE, PASSPORT } = process.env;
      const options = { controlPlaneUrl, apiKey, dataDir: 'crashing', logLevel: 'error' };
      const trust = await startEmbedded(options);
      ${afterwards}`;
    const env = {
      CONTROL_PLANE_URL: service.url,
      SIDECAR_API_KEY: sidecarKey,
      GATE: gate,
      PASSPORT: passport,
    };
    const play = (afterwards: string) =>
      run(process.execPath, ['--input-type=module', '-e', program(afterwards)], {
        cwd: installed.folder,
        env,
      });
    const check = "{ gate: GATE, passport: PASSPORT, request: { permission_key: 'orders:create' } }";
    const crash = `setTimeout(() => { throw new Error('a bug of the service'); }, 0)`;
    const crashed = await play(`
      const { attestation_id } = await trust.check(${check});
      console.log(attestation_id);
      ${crash};`).catch((error: { code: number; stdout: string; stderr: string }) => error);
    expect(crashed).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/^att_/),
      stderr: expect.stringContaining('a bug of the service'),
    });
    await play('await trust.stop();');
    const record = await service.api.call({ url: `/v1/attestations/${crashed.stdout.trim()}` });
    expect(record).toMatchObject({ status: 200, body: { decision: 'PERMIT', gate_id: gate } });
  });
});
