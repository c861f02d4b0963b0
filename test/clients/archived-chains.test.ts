import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { verifyAttestationsCommand } from '../../cli/verify/verify-attestations.ts';
import { verifyAttestations } from '../../clients/node/src/verify.ts';
import { attachmentLine } from '../../shared/attestation/attachments.ts';
import { chainLine, endLine, manifestLine, recordLine } from '../../shared/attestation/export.ts';
import { jsonWriter } from '../../shared/attestation/export-json.ts';
import { must } from '../../shared/errors/assert.ts';
import type { Attestation } from '../../shared/model/attestation.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { verifyExport } from '../support/data/independent-verifier.mjs';
import { at, jwksOf, sampleChain, sampleKey, samplePassport } from '../support/data/sample-chains.ts';
import { pythonEnv, pythons } from './support/python.ts';

/** Exports of chains whose first records are in an archive: what verifiers have to take, and to refuse. */
const run = promisify(execFile);
const folder = temporaryFolder();
const key = sampleKey(7);
const chain: readonly Attestation[] = sampleChain(key, 5);
let python: string;

beforeAll(async () => {
  writeFileSync(join(folder.path, 'jwks.json'), JSON.stringify(jwksOf(key)));
  [python] = await pythons();
});
afterAll(() => folder.remove());

interface Change {
  readonly archivedThrough?: number;
  readonly archivedHash?: string;
  readonly first?: number;
  readonly sinceMs?: UnixMillis | null;
}

const hashOf = (sequence: number) => must(chain[sequence - 1], 'a record').hash;

/** By default of the records 3 to 5, after an archive of the first two; `first` 6: of none. */
function exportOf(change: Change = {}) {
  const { archivedThrough = 2, first = archivedThrough + 1, sinceMs = null } = change;
  const header = {
    chainId: must(chain[0], 'a record').chainId,
    archived: { throughSequence: archivedThrough, hash: change.archivedHash ?? hashOf(archivedThrough) },
    logProof: null,
    firstSequence: first,
    previousAttestationHash: hashOf(first - 1),
    lastSequence: 5,
    lastHash: hashOf(5),
  };
  const manifest = {
    form: 2 as const,
    createdAtMs: at(3_600_000),
    sinceMs,
    generation: null,
    keyIds: [key.kid],
  };
  const records = chain.slice(first - 1);
  const end = { chains: 1, records: records.length, broken: [], brokenUnnamed: 0 };
  const writer = jsonWriter();
  const attachments = records.length === 0 ? [] : [{ passport: samplePassport(key, header.chainId) }];
  return {
    jsonl: [
      ...[manifestLine(manifest), chainLine(header), ...records.map(recordLine)],
      ...[...attachments.map(attachmentLine), endLine(end)],
    ].join(''),
    json: [
      writer.manifest(manifest),
      writer.chain(header),
      ...records.map((each) => writer.record(each)),
      ...attachments.map((each) => writer.attachment(each)),
      writer.end(end),
    ].join(''),
  };
}

function isTakenByAnother(text: string): boolean {
  try {
    verifyExport(Buffer.from(text), jwksOf(key));
    return true;
  } catch {
    return false;
  }
}

/** Whether each of the four takes it; the independent one reads jsonl alone. */
async function verdicts(text: string, format: string): Promise<Readonly<Record<string, boolean>>> {
  const [file, jwks] = [join(folder.path, `export.${format}`), join(folder.path, 'jwks.json')];
  writeFileSync(file, text);
  const output = { write: () => undefined };
  const script =
    'import json, sys, agent_trust.verify as v; sys.exit(0 if v.verify_attestations(open(sys.argv[1], "rb"), json.load(open(sys.argv[2]))) else 5)';
  const ends = (program: string, args: readonly string[]) =>
    run(program, [...args, file, jwks], { env: pythonEnv({}) }).then(
      () => true,
      () => false,
    );
  return {
    command: (await verifyAttestationsCommand({ files: [file], jwks, output, errors: output })) === 0,
    node: (await verifyAttestations(text, jwksOf(key))).valid,
    python: await ends(python, ['-c', script]),
    ...(format === 'json' ? {} : { independent: isTakenByAnother(text) }),
  };
}

const all = (isTaken: boolean, format: string) => ({
  command: isTaken,
  node: isTaken,
  python: isTaken,
  ...(format === 'json' ? {} : { independent: isTaken }),
});

describe.each(['jsonl', 'json'] as const)('an export after an archive, as %s', (format) => {
  it.each([
    ['its records', {}],
    ['no record of its own', { archivedThrough: 5 }],
    ['a later part, by since', { first: 4, sinceMs: at(0) }],
  ])('verifies with %s', async (_what, change) => {
    expect(await verdicts(exportOf(change)[format], format)).toEqual(all(true, format));
  });

  it.each([
    ['names another hash', { archivedHash: `sha256:${'0'.repeat(64)}` }],
    ['leaves out a record after it', { first: 4 }],
    ['begins within it', { archivedThrough: 3, first: 3 }],
  ])('does not verify where it %s', async (_what, change) => {
    expect(await verdicts(exportOf(change)[format], format)).toEqual(all(false, format));
  });
});
