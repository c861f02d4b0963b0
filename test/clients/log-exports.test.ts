import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { verifyAttestationsCommand } from '../../cli/verify/verify-attestations.ts';
import { verifyAttestations } from '../../clients/node/src/verify.ts';
import { LogWriter } from '../../control-plane/log/keep-log.ts';
import { must } from '../../shared/errors/assert.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { verifyExport } from '../support/data/independent-verifier.mjs';
import { findDebianProgram } from '../support/run/debian-program.ts';
import { type Api, startOwnApi } from '../support/service/api.ts';
import { logLines } from '../support/service/witnesses.ts';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../../', import.meta.url));

/** Exports whose chains have proofs of the log, before the verifiers of this project and a stranger's. */
describe('proofs of the log in exports', () => {
  const folder = temporaryFolder();
  let api: Api;
  let jwks: unknown;
  let jsonl: string;
  let json: string;
  let python: string;

  beforeAll(async () => {
    python = await findDebianProgram('python3');
    api = await startOwnApi();
    const writer = new LogWriter(api.deps, async () => undefined);
    const gate = await api.createGate();
    const passports = [await api.issuePassport(), await api.issuePassport()];
    const decide = async (passport: { jwt: string }) => {
      const body = { passport: passport.jwt, request: { permission_key: 'orders:create' } };
      expect((await api.call({ url: `/v1/gates/${gate.gate_id}/check`, body })).status).toBe(200);
    };
    for (const passport of [...passports, ...passports]) await decide(passport);
    await writer.round(() => false);
    // After the last checkpoint.
    await decide(must(passports[0], 'a passport'));
    jwks = (await api.call({ url: '/.well-known/jwks.json', key: null })).body;
    jsonl = (await api.call({ url: '/v1/attestations/export' })).body;
    const asJson = (
      await api.app.inject({
        url: '/v1/attestations/export?format=json',
        headers: { authorization: `Bearer ${api.adminKey}` },
      })
    ).payload;
    json = asJson;
  });
  afterAll(async () => {
    await api?.close();
    folder.remove();
  });

  const written = (name: string, text: string): string => {
    writeFileSync(join(folder.path, name), text);
    return join(folder.path, name);
  };

  async function byCommand(file: string, policy: string | null) {
    const output: string[] = [];
    const sink = { write: (text: string) => void output.push(text) };
    const code = await verifyAttestationsCommand({
      files: [written('export', file)],
      jwks: written('jwks.json', JSON.stringify(jwks)),
      ...(policy === null ? {} : { proofs: { files: [], policy: written('policy', policy) } }),
      output: sink,
      errors: sink,
    });
    return { code, output: output.join('') };
  }

  async function byPython(file: string): Promise<boolean> {
    const script = `
import json, sys
from agent_trust.verify import verify_attestations
verdict = verify_attestations(open(sys.argv[1], "rb"), json.load(open(sys.argv[2])))
print(verdict.fault or "valid")`;
    const env = { ...process.env, PYTHONPATH: join(root, 'clients/python'), PYTHONDONTWRITEBYTECODE: '1' };
    const args = ['-c', script, written('export', file), written('jwks.json', JSON.stringify(jwks))];
    return (await run(python, args, { env })).stdout === 'valid\n';
  }

  const byStranger = (file: string): boolean => {
    try {
      verifyExport(Buffer.from(file), jwks);
      return true;
    } catch {
      return false;
    }
  };

  const expectAll = async (file: string, isValid: boolean) => {
    const found = {
      command: (await byCommand(file, null)).code === 0,
      node: (await verifyAttestations(file, jwks)).valid,
      python: await byPython(file),
      stranger: byStranger(file),
    };
    expect(found).toEqual({ command: isValid, node: isValid, python: isValid, stranger: isValid });
  };

  it('verify with the file, in both formats, and by a policy that names the log', async () => {
    const proven = jsonl.split('\n').filter((line) => line.includes('"log_proof":'));
    expect(proven).toHaveLength(2);
    await expectAll(jsonl, true);
    expect((await byCommand(json, null)).code).toBe(0);
    expect((await verifyAttestations(json, jwks)).valid).toBe(true);
    const policy = `${logLines(api)}quorum none\n`;
    for (const file of [jsonl, json]) {
      const { code, output } = await byCommand(file, policy);
      expect([code, output]).toEqual([0, expect.stringContaining('The log has 2 of these chains')]);
    }
    const other = policy.replaceAll('127.0.0.1:8080/log', 'other.example/log');
    expect((await byCommand(jsonl, other)).code).toBe(2);
    expect(await byCommand(jsonl, 'quorum none\n')).toMatchObject({
      ...{ code: 5, output: expect.stringContaining('signed by no log that the policy names') },
    });
  });

  it('do not hold for another chain, another record, or with another path', async () => {
    const lines = jsonl.split('\n');
    const [one, two] = lines.flatMap((line, at) => (line.includes('"log_proof":') ? [at] : []));
    const headerAt = (at: number | undefined) => JSON.parse(must(lines[must(at, 'a header')], 'a line'));
    const with_ = (change: (proof: string) => string): string => {
      const header = headerAt(one);
      header.chain.log_proof = change(header.chain.log_proof);
      return lines.with(must(one, 'a header'), JSON.stringify(header)).join('\n');
    };
    const other = headerAt(two).chain.log_proof;
    const changed = {
      'of another chain': with_(() => other),
      'of another place': with_((proof) =>
        proof.replace(/index (\d+)/, (_all, at) => `index ${Number(at) + 1}`),
      ),
      'of no hash': with_((proof) => proof.replace(/\n\n/, `\n${'A'.repeat(43)}=\n\n`)),
      'of nothing': with_(() => ''),
    };
    for (const file of Object.values(changed)) await expectAll(file, false);
    // Cut off after the record that the log has, and in front of it: the header names the new end.
    const record = (at: number) => JSON.parse(must(lines[at], 'a line'));
    const first = must(one, 'a header');
    const shortened = (records: number): string => {
      const header = headerAt(first);
      const last = record(first + records);
      Object.assign(header.chain, { last_sequence: last.sequence, last_hash: last.hash });
      const end = lines.slice(first + 1).findIndex((line) => !line.includes('"signing_key_id"'));
      const kept = lines.toSpliced(first + 1 + records, end - records).with(first, JSON.stringify(header));
      return kept
        .map((line) =>
          line.startsWith('{"end"')
            ? line.replace(/"records":(\d+)/, (_all, count) => `"records":${Number(count) - (end - records)}`)
            : line,
        )
        .join('\n');
    };
    const { sequence } = JSON.parse(
      Buffer.from(/extra (\S+)/.exec(headerAt(first).chain.log_proof)?.[1] ?? '', 'base64').toString(),
    );
    expect(sequence).toBe(2);
    await expectAll(shortened(2), true);
    await expectAll(shortened(1), false);
  });
});
