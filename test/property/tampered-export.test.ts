import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cliLimits } from '../../cli/base/limits.ts';
import { LineSplitter } from '../../clients/node/src/verify/export-lines.ts';
import { emptyExtras } from '../../shared/model/attestation.ts';
import { runs } from '../support/base/runs.ts';
import { evidenceCases, evidenceJwks, evidenceKeys } from '../support/data/evidence-cases.ts';
import { verifyExport } from '../support/data/independent-verifier.mjs';
import {
  chainOf,
  exportLinesOf,
  jsonLinesOf,
  jwksOf,
  keysetOf,
  sampleCarried,
  sampleChain,
  sampleExtras,
  sampleId,
  sampleKey,
  samplePolicy,
  sampleRecord,
} from '../support/data/sample-chains.ts';
import { verdictOf } from '../support/data/verify-export.ts';

/**
 * Two verifiers that share no code: both must accept the export, and neither may miss a change of it. One of
 * them reads jsonl alone.
 */
const old = sampleKey(1);
const key = sampleKey(2);
const before = sampleChain(old, 4, 1);
const chain = [
  ...before,
  ...chainOf([sampleRecord(60, { pii: [{ pointer: '/é/😀', type: 'email' }] })], key, before.at(-1)),
];
// Form 1 and form 2 in one chain, as after an upgrade.
const policies = [
  samplePolicy(key),
  samplePolicy(old, { spend_limits: { daily_usd: 0.000001, alert_at: 1e-7 } }),
].sort((one, other) => (one.policy_hash < other.policy_hash ? -1 : 1));
const mixed = chainOf(
  [
    sampleRecord(80),
    ...policies.map(({ policy_hash }, i) =>
      sampleRecord(81 + i, {
        ...sampleExtras,
        policyHash: policy_hash,
        proof: 'httpsig',
        carried: sampleCarried,
      }),
    ),
    sampleRecord(83),
    sampleRecord(84, emptyExtras),
  ].map((record) => ({ ...record, chainId: sampleId('pass', 3), passportId: sampleId('pass', 3) })),
  key,
);
const chains = [chain, sampleChain(key, 3, 2), mixed];
const keyIds = [old.kid, key.kid];
const own = { keys: keysetOf(old, key), jwks: jwksOf(old, key) };
const ofEvidence = { keys: keysetOf(...evidenceKeys), jwks: evidenceJwks };
/** As jsonl and as json, with one of everything that records name. */
const [evidence = [], evidenceAsJson = []] = evidenceCases().map((each) => each.lines);

async function acceptingOf(bytes: Uint8Array, { keys, jwks }: typeof own): Promise<string[]> {
  const accepted: string[] = [];
  const splitter = new LineSplitter({ lineBytesMax: cliLimits.exportLineBytesMax });
  const lines = [...splitter.push(bytes), ...splitter.end()];
  if ((await verdictOf(lines, keys)).kind === 'valid') accepted.push('ours');
  try {
    verifyExport(bytes, jwks);
    accepted.push('independent');
  } catch (error) {
    // Any fault will do: it was not accepted.
    expect(error).toBeInstanceOf(Error);
  }
  return accepted;
}

const both = ['ours', 'independent'];

describe.each([
  { format: 'jsonl', lines: exportLinesOf(chains, { keyIds, policies }), verifiers: both, by: own },
  { format: 'json', lines: jsonLinesOf(chains, { keyIds, policies }), verifiers: ['ours'], by: own },
  { format: 'jsonl with evidence', lines: evidence, verifiers: both, by: ofEvidence },
  { format: 'json with evidence', lines: evidenceAsJson, verifiers: ['ours'], by: ofEvidence },
])('an export as $format', ({ lines, verifiers, by }) => {
  const acceptedBy = (bytes: Uint8Array) => acceptingOf(bytes, by);
  const file = Buffer.from(lines.join(''), 'utf8');
  // What the manifest says of its own time and history is not signed, and docs/verify.md says so.
  const startOf = (before: string) => file.indexOf(before) + before.length;
  const createdAt = startOf('"created_at":"');
  const generation = startOf('"generation":"gen_');
  const isUnsigned = (offset: number) =>
    (offset >= createdAt && offset < createdAt + '2026-11-20T10:00:00.000Z'.length) ||
    (offset >= generation && offset < generation + 32);
  const offset = fc.nat(file.length - 1).filter((at) => !isUnsigned(at));

  it('is accepted unchanged', async () => {
    expect(await acceptedBy(file)).toEqual(verifiers);
  });

  it('is refused when any one byte is changed', async () => {
    await fc.assert(
      fc.asyncProperty(offset, fc.integer({ min: 1, max: 255 }), async (at, change) => {
        const changed = Uint8Array.from(file);
        changed[at] = (changed[at] ?? 0) ^ change;
        expect(await acceptedBy(changed)).toEqual([]);
      }),
      { numRuns: runs({ short: 40, long: 40_000 }) },
    );
  });

  it('is refused when one bit of the last byte of each line, or of each signature, is changed', async () => {
    for (let at = 0; at < file.length; at++) {
      const isLineEnd = file[at] === 0x0a || file[at + 1] === 0x0a;
      const isSignatureEnd = file.subarray(at + 1, at + 18).toString() === '","signing_key_id';
      if (!isLineEnd && !isSignatureEnd) continue;
      for (const bit of [1, 2, 4, 8]) {
        const changed = Uint8Array.from(file);
        changed[at] = (changed[at] ?? 0) ^ bit;
        expect(await acceptedBy(changed), `byte ${at}`).toEqual([]);
      }
    }
  });

  it('is refused when a byte is inserted or removed', async () => {
    await fc.assert(
      fc.asyncProperty(offset, fc.nat(255), fc.boolean(), async (at, byte, inserts) => {
        fc.pre(at !== createdAt - 1);
        const changed = inserts
          ? Uint8Array.from([...file.subarray(0, at), byte, ...file.subarray(at)])
          : Uint8Array.from([...file.subarray(0, at), ...file.subarray(at + 1)]);
        expect(await acceptedBy(changed)).toEqual([]);
      }),
      { numRuns: runs({ short: 20, long: 20_000 }) },
    );
  });

  it('is refused when it is cut off anywhere', async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(file.length - 1), async (length) => {
        expect(await acceptedBy(file.subarray(0, length))).toEqual([]);
      }),
      { numRuns: runs({ short: 20, long: 20_000 }) },
    );
    expect(await acceptedBy(file.subarray(0, file.length - 1))).toEqual([]);
  });

  it('is refused when any of its lines is removed, doubled or swapped with the next', async () => {
    for (let at = 0; at < lines.length; at++) {
      const line = lines[at] ?? '';
      const bytesOf = (some: readonly string[]) => Buffer.from(some.join(''), 'utf8');
      expect(await acceptedBy(bytesOf(lines.toSpliced(at, 1))), `without ${at}`).toEqual([]);
      expect(await acceptedBy(bytesOf(lines.toSpliced(at, 0, line))), `${at} twice`).toEqual([]);
      if (at + 1 < lines.length) {
        expect(
          await acceptedBy(bytesOf(lines.toSpliced(at, 2, lines[at + 1] ?? '', line))),
          `${at} swapped`,
        ).toEqual([]);
      }
    }
  });
});
