import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type ApiDocument, forPrograms } from '../../clients/node/scripts/generate-api.ts';
import { freePort } from '../support/base/free-port.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { until } from '../support/base/until.ts';
import { fencedBlock } from '../support/data/verify-example.ts';
import { sharedService } from '../support/run/shared-services.ts';
import { root, run } from './support/installed-client.ts';
import { pythonEnv, pythonFolder, pythons, runUnittest } from './support/python.ts';
import { casesForPython } from './support/python-cases.ts';
import { type ClientService, startClientService } from './support/service.ts';

/** Of the operations that are for programs. */
const documentIds = (): readonly string[] => {
  const document: ApiDocument = JSON.parse(readFileSync(join(root, 'docs/openapi.json'), 'utf8'));
  return Object.values(forPrograms(document).paths).flatMap((operations) =>
    Object.values(operations).map(({ operationId }) => operationId),
  );
};
const snake = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

const folder = temporaryFolder();
let service: ClientService;
let interpreters: readonly [string, ...string[]];
let env: Readonly<Record<string, string>>;
let gate: string;
const exampleEnv = () => ({
  AGENT_TRUST_API_KEY: service.api.adminKey,
  GATE_ID: gate,
  SIDECAR_URL: service.testSidecar.origin,
  CONTROL_PLANE_URL: service.url,
  // A busy machine may take longer than the 500 ms that they set otherwise.
  DEADLINE_MS: '60000',
});
beforeAll(async () => {
  interpreters = await pythons();
  service = await startClientService();
  const create = (name: string, constraints: Record<string, unknown>) =>
    service.agentTrust.gates.create({ name, trust_level: 'L1', constraints });
  const orders = await create('Orders', {
    approvals: { above_usd: 100 },
    spend_limits: { per_transaction_usd: 500, daily_usd: 1_000_000 },
  });
  gate = orders.gate_id;
  const limited = await create('Limited', { rate_limits: { requests_per_day: 1, per: 'passport' } });
  await service.testSidecar.caughtUp();
  const cases = join(folder.path, 'cases.json');
  writeFileSync(cases, JSON.stringify(await casesForPython()));
  env = {
    AGENT_TRUST_CASES: cases,
    AGENT_TRUST_SERVICE: JSON.stringify({
      url: service.url,
      sidecarUrl: service.testSidecar.origin,
      key: service.api.adminKey,
      gate,
      limitedGate: limited.gate_id,
      operations: documentIds().map(snake),
    }),
  };
});
afterAll(async () => {
  await service.close();
  folder.remove();
});

describe('the client for Python, with Python of Debian and of PATH', () => {
  // `unittest` prints how many tests have run, and that nothing has failed.
  const allPassed = /^Ran [1-9]\d* tests? in [\s\S]*^OK/m;

  it.each(['test_agent', 'test_conditions', 'test_failures', 'test_guard', 'test_verify'])(
    'passes %s',
    async (name) => {
      const outputs = await Promise.all(interpreters.map((python) => runUnittest(python, name, env)));
      for (const output of outputs) expect(output).toMatch(allPassed);
    },
  );

  it('passes test_service', async () => {
    // One after the other: they list and change the same things.
    for (const python of interpreters)
      expect(await runUnittest(python, 'test_service', env)).toMatch(allPassed);
  });

  it('has the version of the client for Node.js', () => {
    const { version } = JSON.parse(readFileSync(join(root, 'clients/node/package.json'), 'utf8'));
    const text = readFileSync(join(pythonFolder, 'agent_trust/__init__.py'), 'utf8');
    expect(text).toContain(`\n__version__ = "${version}"\n`);
  });

  it('has a verifier of less than 80 lines of code, without libraries', () => {
    const text = readFileSync(join(pythonFolder, 'agent_trust/verify.py'), 'utf8');
    expect(text.split('\n').filter((line) => line.trim() !== '').length).toBeLessThan(80);
  });
});

const examples = readdirSync(join(root, 'examples')).filter((name) => name.endsWith('.py'));

describe('the examples in Python', () => {
  const page = readFileSync(join(root, 'docs/integrations/python.md'), 'utf8');
  const closing: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0)) await close();
  });

  it('are two', () => expect(examples).toEqual(['fastapi_app.py', 'wsgi_app.py']));

  it.each(examples)('%s runs on a real server, and is what its page shows', async (name) => {
    const source = readFileSync(join(root, 'examples', name), 'utf8');
    expect(page).toContain(`\`\`\`python\n${source}\`\`\`\n`);
    const python = await sharedService('python3 with FastAPI and Flask');
    const port = await freePort();
    const child = spawn(python, [join(root, 'examples', name)], {
      env: pythonEnv({ ...exampleEnv(), PORT: String(port) }),
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let printed = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      printed += text;
    });
    const gone = once(child, 'exit');
    closing.push(() => {
      child.kill();
      return gone;
    });
    const at = (path: string, options: RequestInit = {}) => fetch(`http://127.0.0.1:${port}${path}`, options);
    const isUp = async () => {
      if (child.exitCode !== null) throw new Error(printed);
      return at('/health').then(
        ({ status }) => status === 200,
        () => false,
      );
    };
    await until(isUp, { what: `${name} on its port`, timeoutMs: 60_000 });

    const { jwt = '' } = await service.agentTrust.passports.issue({
      agent_id: name,
      permissions: ['orders:create'],
    });
    const order = async (
      headers: Record<string, string>,
      path = '/orders',
      amount = 5,
    ): Promise<[number, unknown]> => {
      const body = JSON.stringify({ item: 'tea', amount });
      const all = { 'content-type': 'application/json', ...headers };
      const response = await at(path, { method: 'POST', headers: all, body });
      return [response.status, await response.json()];
    };
    const own = { 'x-agent-passport': jwt };
    expect(await order(own)).toEqual([201, { ordered: 'tea', record: expect.stringMatching(/^att_/) }]);
    expect((await order({ ...own, 'x-gate-decision': 'PERMIT' }, '/orders', 501))[0]).toBe(403);
    expect((await order({}))[0]).toBe(401);
    expect(await order(own, '/orders', 200)).toMatchObject([202, { decision: 'SUSPEND' }]);
    // Each of these is /orders to some reader of paths.
    for (const path of ['/orders/', '/Orders', '/health/..%2Forders', '/%6frders%2f', '/other']) {
      expect([path, (await order(own, path))[0]]).toEqual([path, 403]);
    }
    // wsgiref makes one slash of them before the guard and the program look.
    expect([401, 403]).toContain((await order({}, '//orders'))[0]);
  });

  it('has a program without dependencies that prints the decision', async () => {
    const { jwt = '' } = await service.agentTrust.passports.issue({
      agent_id: 'plain',
      permissions: ['orders:create'],
    });
    const [python] = interpreters;
    const plain = fencedBlock(page, 'python', 2)
      .replace('http://127.0.0.1:8090', service.testSidecar.origin)
      .replace('"])\n', '"], deadline_ms=60_000)\n');
    const env = pythonEnv({ ...exampleEnv(), PASSPORT: jwt });
    expect((await run(python, ['-c', plain], { env })).stdout).toBe('serve\n');
  });
});
