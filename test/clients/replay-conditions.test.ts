import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { replayAttestationsCommand } from '../../cli/verify/replay-attestations.ts';
import { noCarried } from '../../shared/model/attestation.ts';
import { openingOf } from '../../shared/wire/evidence/fact.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { verifyExport } from '../support/data/independent-verifier.mjs';
import { judgedRecords, linesWith } from '../support/data/records-with-conditions.ts';
import { replayText } from '../support/data/replay.ts';
import { startOwnApi } from '../support/service/api.ts';
import { append, exportText, linesOf, newRecord, ownerOf, verifyText } from '../support/service/exports.ts';
import { useApi } from '../support/service/use-api.ts';
import { pythonEnv, pythons } from './support/python.ts';

/** Conditions decided again by two programs; the one in Python has nothing but their checked form. */
const folder = temporaryFolder();
afterAll(() => folder.remove());
const api = useApi(startOwnApi);
let python: string;
beforeAll(async () => {
  [python] = await pythons();
});

const inPython = async (...args: readonly string[]) =>
  JSON.parse((await promisify(execFile)(python, args, { env: pythonEnv({}) })).stdout);

const script = `
import json, sys
from agent_trust.replay import replay_lines
exports = [[json.loads(line) for line in export] for export in json.load(open(sys.argv[1]))]
print(json.dumps([replay_lines(lambda: export) for export in exports]))
`;

it('judges what a record and its facts may say as the command does', async () => {
  const exports = judgedRecords.map(linesWith);
  const file = join(folder.path, 'exports.json');
  writeFileSync(file, JSON.stringify(exports));
  const reports = await inPython('-c', script, file);
  for (const [place, lines] of exports.entries())
    expect({ name: judgedRecords[place]?.name, report: reports[place] }).toEqual({
      name: judgedRecords[place]?.name,
      report: replayText(`${lines.join('\n')}\n`),
    });
});

it('replays an export that has facts and forms, which three verifiers take', async () => {
  const require = "request.arguments.path.startsWith('/workspace/') && request.amount_micro_usd <= 9";
  const limited = { conditions: [{ id: 'below', require }] };
  const { gate_id: gateId } = await api.createGate({ constraints: limited, trust_level: 'L1' });
  const hours = { conditions: [{ id: 'hours', require: "now.getHours('Asia/Tokyo') < 24" }] };
  const passport = await api.issuePassport({ permissions: ['files:write'], constraints: hours });
  const request = { permission_key: 'files:write', arguments: { path: '/workspace/a' } };
  const { body } = await api.call({
    url: `/v1/gates/${gateId}/check`,
    body: { passport: passport.jwt, request },
  });
  expect(body).toMatchObject({ decision: 'BLOCK', reason: 'condition_error', condition: 'below' });
  const asked = await api.call({ url: `/v1/attestations/${body.attestation_id}` });
  const policyHash: string = asked.body.policy_hash;

  const owner = await ownerOf(api);
  const about = { passport: { id: passport.passport_id, owner }, gateId, gateOwner: owner };
  const constraintsEvaluated = ['passport', 'trust_level', 'issuer', 'permission', 'conditions'] as const;
  const salt = Buffer.alloc(16, 7).toString('base64url');
  for (const path of ['/workspace/a', '/etc/passwd']) {
    const values = [
      ['/request/amount_micro_usd', 2],
      ['/request/arguments/path', path],
    ] as const;
    const made = values.map(([at, value]) => ({ at, ...openingOf(at, salt, value) }));
    const record = newRecord(api, about, {
      ...{
        asserted: false,
        amountMicroUsd: 2 as never,
        constraintsEvaluated,
        permissionKey: 'files:write' as never,
      },
      ...{ policyHash, sourceAccount: owner.accountId, trustLevel: 'L1' },
      carried: {
        ...{ ...noCarried, conditions: [] },
        facts: made.map(({ at, commitment }) => ({ commitment, path: at })),
      },
    });
    await append(api, [{ ...record, facts: made.map(({ opening }) => opening) }]);
  }

  const text = await exportText(api, '?facts=1');
  const forms = linesOf(text).flatMap(({ condition }) =>
    condition === undefined ? [] : [condition.body.require],
  );
  expect(forms.sort()).toEqual([hours.conditions[0]?.require, require].sort());
  expect(linesOf(await exportText(api)).some(({ condition }) => condition !== undefined)).toBe(false);
  const jwks = (await api.call({ url: '/.well-known/jwks.json', key: null })).body;
  expect(await verifyText(api, text)).toMatchObject({ kind: 'valid', facts_opened: 4 });
  expect(verifyExport(Buffer.from(text), jwks)).toMatchObject({ chains: expect.any(Number) });
  const [file, keys] = ['export.jsonl', 'jwks.json'].map((name) => join(folder.path, name)) as [
    string,
    string,
  ];
  writeFileSync(file, text);
  writeFileSync(keys, JSON.stringify(jwks));
  let output = '';
  const sink = {
    write: (piece: string) => {
      output += piece;
    },
  };
  const errors = { write: () => undefined };
  expect(
    await replayAttestationsCommand({ files: [file], jwks: keys, isJson: true, output: sink, errors }),
  ).toBe(5);
  const report = JSON.parse(output);
  expect(report.decisions.PERMIT).toEqual({ agrees: 1, contradicted: 1, unjudged: 0 });
  const expected = { decision: 'BLOCK', reason: 'condition_not_met' };
  expect(report.contradictions).toMatchObject([{ fault: 'decision', expected }]);
  const call = inPython('-m', 'agent_trust.replay', file, '--jwks', keys, '--json');
  const failed: { stdout: string } = await call.catch((error: unknown) => error as { stdout: string });
  expect(JSON.parse(failed.stdout)).toEqual(report);

  const forged = text.replace('"form":{"expr"', '"form":{"exps"');
  expect(forged).not.toBe(text);
  expect(await verifyText(api, forged)).toMatchObject({ fault: 'attachment_mismatch' });
  expect(() => verifyExport(Buffer.from(forged), jwks)).toThrow();
});
