import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { verifyAttestations } from '../../clients/node/src/verify.ts';
import { limits } from '../../shared/model/limits.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { type Api, startOwnApi } from '../support/service/api.ts';
import { exportText } from '../support/service/exports.ts';
import { pythonEnv, pythons } from './support/python.ts';

/** A retired key that was declared compromised: what both clients say of records that it signed. */
const run = promisify(execFile);
const folder = temporaryFolder();
let api: Api;
beforeAll(async () => {
  api = await startOwnApi();
});
afterAll(async () => {
  await api?.close();
  folder.remove();
});

const script = `
import json, sys
from agent_trust.verify import verify_attestations
with open(sys.argv[1], "rb") as export, open(sys.argv[2]) as jwks:
    verdict = verify_attestations(export, json.load(jwks))
print(json.dumps([verdict.fault, verdict.records, verdict.compromised]))
`;

it('counts them, and those of the key after it not, before and after the declaration', async () => {
  const gate = await api.createGate();
  const { jwt } = await api.issuePassport();
  const check = () =>
    api.call({
      url: `/v1/gates/${gate.gate_id}/check`,
      body: { passport: jwt, request: { permission_key: 'orders:create' } },
    });
  const rotate = (body: object) =>
    api.call({ url: '/v1/signing-keys/rotate', body: { purpose: 'attestation', ...body } });
  for (let n = 0; n < 2; n++) await check();
  const { previous } = (await rotate({})).body;
  api.advance(limits.signingKeyLeadMs);
  for (let n = 0; n < 3; n++) await check();

  const [file, jwks] = [join(folder.path, 'export.jsonl'), join(folder.path, 'jwks.json')];
  const verdicts = async () => {
    const keys = (await api.call({ url: '/.well-known/jwks.json', key: null })).body;
    const text = await exportText(api);
    writeFileSync(file, text);
    writeFileSync(jwks, JSON.stringify(keys));
    const inPython = (await pythons()).map(async (python) => {
      const { stdout } = await run(python, ['-c', script, file, jwks], { env: pythonEnv({}) });
      return JSON.parse(stdout);
    });
    const verdict = await verifyAttestations(text, keys);
    const node = verdict.valid ? [verdict.records, verdict.compromised] : [verdict.fault];
    return { node, python: await Promise.all(inPython) };
  };
  const before = await verdicts();
  expect(before.node).toEqual([5, 0]);
  for (const verdict of before.python) expect(verdict).toEqual([null, 5, 0]);

  expect((await rotate({ compromised: true, kid: previous.kid })).status).toBe(200);
  const after = await verdicts();
  expect(after.node).toEqual([5, 2]);
  for (const verdict of after.python) expect(verdict).toEqual([null, 5, 2]);
});
