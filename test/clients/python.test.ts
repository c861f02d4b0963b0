import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { root } from './support/installed-client.ts';
import { pythonFolder, pythons, runUnittest } from './support/python.ts';
import { casesForPython } from './support/python-cases.ts';
import { type ClientService, startClientService } from './support/service.ts';

const documentIds = (): readonly string[] => {
  const { paths } = JSON.parse(readFileSync(join(root, 'docs/openapi.json'), 'utf8'));
  return Object.values<Record<string, { operationId: string }>>(paths).flatMap((operations) =>
    Object.values(operations).map(({ operationId }) => operationId),
  );
};
const snake = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

const folder = temporaryFolder();
let service: ClientService;
let interpreters: readonly string[];
let env: Readonly<Record<string, string>>;
beforeAll(async () => {
  interpreters = await pythons();
  service = await startClientService();
  const create = (name: string, constraints: object) =>
    service.agentTrust.gates.create({ name, trust_level: 'L1', constraints });
  const gate = await create('Orders', {
    approvals: { above_usd: 100 },
    spend_limits: { per_transaction_usd: 500, daily_usd: 1_000_000 },
  });
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
      gate: gate.gate_id,
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
  it.each(['test_failures', 'test_guard', 'test_verify', 'test_service'])('passes %s', async (name) => {
    for (const python of interpreters) {
      // `unittest` prints how many tests have run, and that nothing has failed.
      expect(await runUnittest(python, name, env)).toMatch(/^Ran [1-9]\d* tests? in [\s\S]*^OK/m);
    }
  });

  it('has the version of the client for Node.js', () => {
    const { version } = JSON.parse(readFileSync(join(root, 'clients/node/package.json'), 'utf8'));
    const text = readFileSync(join(pythonFolder, 'agent_trust/__init__.py'), 'utf8');
    expect(text).toContain(`\n__version__ = "${version}"\n`);
  });

  it('has a verifier of less than 80 lines of code, without what it only uses', () => {
    const text = readFileSync(join(pythonFolder, 'agent_trust/verify.py'), 'utf8');
    expect(text.split('\n').filter((line) => line.trim() !== '').length).toBeLessThan(80);
  });
});
