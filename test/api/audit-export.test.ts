import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { verifyAttestationsCommand } from '../../cli/verify/verify-attestations.ts';
import { auditLimits } from '../../control-plane/audit/limits.ts';
import { AuditVerifier } from '../../shared/audit/verify-audit.ts';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { keyset } from '../../shared/crypto/keyset.ts';
import { startOwnApi } from '../support/service/api.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
let key: string;
let text: string;
beforeAll(async () => {
  ({ key } = await api.createAccount());
  const gate = await api.createGate({ constraints: { spend_limits: { daily_usd: 0.1 } } }, key);
  for (const name of ['ä', 'b', 'c'])
    await api.call({ method: 'PUT', url: `/v1/gates/${gate.gate_id}`, key, body: { name } });
  text = await download();
});

async function download(query = '', asKey = key): Promise<string> {
  const reply = await api.call({ url: `/v1/audit/export${query}`, key: asKey });
  expect(reply.status).toBe(200);
  expect(reply.headers['content-type']).toBe('application/x-ndjson');
  return String(reply.body);
}

function verdictOf(exported: string, keys = api.deps.signingKeys.all()) {
  const verifier = new AuditVerifier(keyset(chooseEd25519(), keys));
  for (const line of exported.split('\n').slice(0, -1)) verifier.take(line);
  return verifier.finish();
}

/** The command on files, as a person calls it. */
async function command(exported: string): Promise<{ code: number; said: string }> {
  const folder = tmpdir();
  const [file, jwks] = [join(folder, `audit-${process.pid}.jsonl`), join(folder, `jwks-${process.pid}.json`)];
  await writeFile(file, exported);
  await writeFile(jwks, JSON.stringify((await api.call({ url: '/.well-known/jwks.json', key: null })).body));
  const said: string[] = [];
  const output = { write: (piece: string) => void said.push(piece) };
  const code = await verifyAttestationsCommand({ files: [file], jwks, output, errors: output });
  return { code, said: said.join('') };
}

describe('an export of the audit', () => {
  it('is the whole chain of the account and mode', () => {
    const lines = text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines[0].manifest).toMatchObject({
      ...{ format: 'agent-trust.audit.v1', generation: expect.stringMatching(/^gen_[0-9a-f]{32}$/) },
      ...{ mode: 'live', first_sequence: 1, last_sequence: 4, since: null },
    });
    expect(lines.slice(1, -1).map(({ sequence, operation }) => [sequence, operation])).toEqual([
      [1, 'createGate'],
      [2, 'updateGate'],
      [3, 'updateGate'],
      [4, 'updateGate'],
    ]);
    expect(lines.at(-1)).toEqual({ end: { entries: 4 } });
    expect(verdictOf(text)).toMatchObject({ kind: 'valid', records: 4 });
  });

  it('is verified by the command that verifies attestations, which finds one changed byte', async () => {
    expect(await command(text)).toMatchObject({
      code: 0,
      said: expect.stringMatching(/^OK: 4 records in 1 chain/),
    });
    const changed = await command(text.replace('"daily_usd":0.1', '"daily_usd":0.2'));
    expect(changed).toMatchObject({
      code: 5,
      said: expect.stringMatching(/line 2, chain acct_\w+, sequence 1: .*hash/),
    });
  });

  it('fails for every changed, missing, repeated or moved line', () => {
    const lines = text.split('\n').slice(0, -1);
    const faults = lines.flatMap((line, at) => {
      const without = lines.toSpliced(at, 1);
      const variants = [
        without,
        lines.toSpliced(at, 0, line),
        lines.toSpliced(at, 1, `${line} `),
        at === 0 ? without : lines.toSpliced(at, 1).toSpliced(at - 1, 0, line),
      ];
      return variants.map((variant) => verdictOf(`${variant.join('\n')}\n`).kind);
    });
    expect(faults).toHaveLength(lines.length * 4);
    expect(new Set(faults)).toEqual(new Set(['invalid']));
  });

  it('takes the signature of no other purpose, and names one by a compromised key', () => {
    const keys = api.deps.signingKeys.all();
    const of = (change: object) =>
      keys.map((each) => (each.purpose === 'attestation' ? { ...each, ...change } : each));
    expect(verdictOf(text, of({ purpose: 'catalog' }))).toMatchObject({ fault: 'manifest_key_unknown' });
    expect(verdictOf(text, of({ compromised: true }))).toMatchObject({ kind: 'valid', compromised: 4 });
  });

  it('begins at the first entry not older than since', async () => {
    api.stopClock();
    api.advance(60_000);
    const since = new Date(api.deps.clock.now()).toISOString();
    await api.createGate({}, key);
    const late = await download(`?since=${since}`);
    expect(JSON.parse(late.split('\n')[0] ?? '').manifest).toMatchObject({
      first_sequence: 5,
      last_sequence: 5,
    });
    expect(verdictOf(late)).toMatchObject({ kind: 'valid', records: 1 });
    api.advance(60_000);
    const none = await download(`?since=${new Date(api.deps.clock.now()).toISOString()}`);
    expect(verdictOf(none)).toMatchObject({ kind: 'valid', records: 0 });
  });

  it('is there for an account without any entry, and shows a key nothing but its own', async () => {
    const other = await api.createAccount();
    const empty = await download('', other.key);
    expect(verdictOf(empty)).toMatchObject({ kind: 'valid', records: 0 });
    expect(empty).not.toContain('createGate');
  });

  it('is put together from slices', async () => {
    const { key: many } = await api.createAccount();
    const count = auditLimits.auditExportSliceRowsMax + 1;
    await Promise.all(Array.from({ length: count }, () => api.createIssuer({}, many)));
    expect(verdictOf(await download('', many))).toMatchObject({ kind: 'valid', records: count });
  });
});
