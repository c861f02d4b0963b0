import { describe, expect, it } from 'vitest';
import { exportCrypto } from '../../../cli/verify/export-crypto.ts';
import { ExportVerifier } from '../../../clients/node/src/verify/export-verifier.ts';
import { chainLine, type ExportManifest, endLine, manifestLine } from '../../../shared/attestation/export.ts';
import { csvHeader } from '../../../shared/attestation/export-csv.ts';
import { canonicalJson } from '../../../shared/crypto/canonical-json.ts';
import { chooseEd25519 } from '../../../shared/crypto/choose-ed25519.ts';
import { type Keyset, keyset, parseJwks } from '../../../shared/crypto/keyset.ts';
import { must } from '../../../shared/errors/assert.ts';
import type { Attestation } from '../../../shared/model/attestation.ts';
import type { UnixMillis } from '../../../shared/model/time.ts';
import {
  at,
  chainOf,
  exportLinesOf,
  jsonLinesOf,
  keysetOf,
  sampleChain,
  sampleId,
  sampleKey,
  sampleRecord,
} from '../../support/data/sample-chains.ts';
import { verdictOf as verify } from '../../support/data/verify-export.ts';
import { earlierExportLines, earlierJwks } from '../../vectors/earlier-export.ts';

const key = sampleKey(1);
const keys = keysetOf(key);
const one = sampleChain(key, 3, 1);
const two = sampleChain(key, 4, 2);
const keyIds = [key.kid];
const lines = exportLinesOf([one, two], { keyIds });

const verdictOf = (of: readonly (string | null)[], set: Keyset = keys) => verify(of, set);
async function faultOf(of: readonly (string | null)[], set: Keyset = keys): Promise<string> {
  const verdict = await verdictOf(of, set);
  return verdict.kind === 'valid' ? 'valid' : verdict.fault;
}
const get = (chain: readonly Attestation[], index: number) => must(chain.at(index), 'a record of the sample');
const without = (index: number) => lines.filter((_, i) => i !== index);
const replaced = (index: number, line: string) => lines.map((old, i) => (i === index ? line : old));
const generation = `gen_${'0'.repeat(32)}`;
const manifest: ExportManifest = { form: 2, createdAtMs: at(3_600_000), sinceMs: null, generation, keyIds };

describe('the lines of an export', () => {
  it('verify with the name of a generation, without one as before there were any, and with no other text', async () => {
    const line = manifestLine(manifest);
    expect(await faultOf(replaced(0, line))).toBe('valid');
    expect(await faultOf(replaced(0, manifestLine({ ...manifest, generation: null })))).toBe('valid');
    for (const other of ['', 'gen_', `gen_${'G'.repeat(32)}`, `acct_${'0'.repeat(32)}`])
      expect(await faultOf(replaced(0, line.replace(generation, other)))).not.toBe('valid');
    expect(await faultOf(replaced(0, line.replace(`"${generation}"`, 'null')))).not.toBe('valid');
  });
});

describe('ExportVerifier', () => {
  it('accepts records signed by a key that was retired later, and by the one after it', async () => {
    const old = sampleKey(2, { retiredAtMs: at(5_000) });
    const records = chainOf([sampleRecord(1), sampleRecord(2)], old);
    const chain = [...records, ...chainOf([sampleRecord(3)], key, get(records, -1))];
    expect(await faultOf(exportLinesOf([chain], { keyIds: [old.kid, key.kid] }), keysetOf(old, key))).toBe(
      'valid',
    );
  });

  it('says how many records were signed by a compromised key', async () => {
    const compromised = keysetOf(sampleKey(1, { compromised: true }));
    expect(await verdictOf(lines, compromised)).toMatchObject({ kind: 'valid', compromised: 7 });
  });

  it('accepts an export since a time, which begins in the middle of its chains', async () => {
    const sinceMs = get(one, 1).timestampMs;
    const part = exportLinesOf([one.slice(1), two], { keyIds, sinceMs });
    expect(await faultOf(part)).toBe('valid');
    expect(await faultOf(exportLinesOf([one.slice(1)], { keyIds }))).toBe('chain_start');
    const later = (sinceMs + 1) as UnixMillis;
    expect(await faultOf(exportLinesOf([one.slice(1)], { keyIds, sinceMs: later }))).toBe('chain_start');
  });

  it('names the line, the chain and the first bad sequence number', async () => {
    const bad = lines[6]?.replace('PERMIT', 'BLOCK') ?? '';
    const place = { line: 7, chainId: sampleId('pass', 2), sequence: 1 };
    expect(await verdictOf(replaced(6, bad))).toEqual({
      ...{ kind: 'invalid', broken: [], brokenUnnamed: 0, fault: 'hash_mismatch' },
      message: 'the hash does not match the record',
      ...place,
      found: place,
    });
    expect(await verdictOf(without(3))).toMatchObject({ fault: 'sequence_gap', line: 4, sequence: 2 });
  });

  it('finds a second member of one name in front of the true one', async () => {
    const doubled = lines[2]?.replace('"decision":"PERMIT"', '"decision":"BLOCK","decision":"PERMIT"') ?? '';
    expect(JSON.parse(doubled)).toEqual(JSON.parse(lines[2] ?? ''));
    expect(await faultOf(replaced(2, doubled))).toBe('not_canonical');
  });

  it('finds a header that does not fit its records', async () => {
    const header = (change: object) =>
      chainLine({
        ...{ chainId: get(one, 0).chainId, archived: null, logProof: null, firstSequence: 1 },
        ...{ previousAttestationHash: null, lastSequence: 3, lastHash: get(one, -1).hash },
        ...change,
      });
    expect(await faultOf(replaced(1, header({})))).toBe('valid');
    expect(await faultOf(replaced(1, header({ chainId: sampleId('acct', 1) })))).toBe('wrong_chain');
    expect(await faultOf(replaced(1, header({ lastHash: get(one, 0).hash })))).toBe('wrong_last_hash');
    expect(await faultOf(replaced(1, header({ lastSequence: 2 })))).toBe('wrong_last_hash');
    expect(await faultOf(replaced(1, header({ lastSequence: 4 })))).toBe('stops_early');
    expect(await faultOf(replaced(1, header({ firstSequence: 2 })))).toBe('chain_start');
    expect(await faultOf(replaced(1, header({ previousAttestationHash: get(one, 0).hash })))).toBe(
      'chain_start',
    );
    expect(await faultOf(replaced(1, header({ lastSequence: 0 })))).toBe('no_chain');
    expect(await faultOf(replaced(1, header({ chainId: 'x' })))).toBe('no_chain');
  });

  it('finds wrong counts in the end line, and anything after it', async () => {
    for (const counts of [
      { chains: 2, records: 6 },
      { chains: 1, records: 7 },
    ]) {
      const end = endLine({ ...counts, broken: [], brokenUnnamed: 0 });
      expect(await faultOf(replaced(lines.length - 1, end))).toBe('wrong_counts');
    }
    expect(await faultOf([...lines, ''])).toBe('after_end');
    expect(await faultOf([...lines, null])).toBe('after_end');
  });

  it('takes no end that names no broken chain, or too few before it counts more', async () => {
    const last = lines.length - 1;
    const named = { chain_id: sampleId('pass', 1), fault: 'link_broken', sequence: 2 };
    for (const [broken, unnamed] of [
      [[], ''],
      [[named], ',"broken_unnamed":5'],
      [[{ ...named, chain_id: '\u001b[2J' }], ''],
      [[{ ...named, fault: 'No word' }], ''],
    ] as const) {
      const end = `{"end":{"broken":${canonicalJson(broken)}${unnamed},"chains":2,"records":7}}\n`;
      expect(await faultOf(replaced(last, end)), end).toBe('no_chain');
    }
    const end = `{"end":{"broken":[${canonicalJson(named)}],"chains":2,"records":7}}\n`;
    const verdict = await verdictOf(replaced(last, end));
    expect(verdict).toMatchObject({ fault: 'broken', chainId: named.chain_id, sequence: 2, line: last + 1 });
  });

  it('finds a manifest that is missing, of another format, or names other keys', async () => {
    expect(await faultOf([])).toBe('no_end');
    expect(await faultOf(replaced(0, lines[0]?.replace('.v2', '.v3') ?? ''))).toBe('no_manifest');
    expect(await faultOf(replaced(0, lines[1] ?? ''))).toBe('no_manifest');
    const stranger = sampleKey(2);
    expect(await faultOf(replaced(0, manifestLine({ ...manifest, keyIds: [stranger.kid] })))).toBe(
      'manifest_key_unknown',
    );
    const both = keysetOf(key, stranger);
    expect(await faultOf(replaced(0, manifestLine({ ...manifest, keyIds: [stranger.kid] })), both)).toBe(
      'key_not_listed',
    );
    expect(await faultOf(lines, keysetOf(sampleKey(1, {}, 'catalog')))).toBe('manifest_key_unknown');
  });

  it('finds a key that came into force after the export was made, clocks being 60 s apart at most', async () => {
    const boundMs = manifest.createdAtMs + 60_000;
    const late = (notBeforeMs: number) => keysetOf(sampleKey(1, { notBeforeMs: notBeforeMs as UnixMillis }));
    expect(await faultOf(lines, late(boundMs))).toBe('valid');
    expect(await faultOf(lines, late(boundMs + 1))).toBe('key_not_yet_valid');
  });

  it('says of a file of another form how it came by it', async () => {
    const value = JSON.parse(jsonLinesOf([one, two], { keyIds }).join(''));
    for (const spaces of [0, 2]) {
      const anew = JSON.stringify(value, null, spaces).split('\n');
      expect(await verdictOf(anew)).toMatchObject({ fault: 'no_manifest' });
    }
    expect(await verdictOf(['id,timestamp,chain_id\r\n'])).toMatchObject({ fault: 'no_manifest' });
    expect(await verdictOf([`${csvHeader}\r\n`])).toMatchObject({ fault: 'csv' });
  });

  it('stays with its first verdict', async () => {
    const verifier = new ExportVerifier(exportCrypto(keys));
    const failure = await verifier.take('nonsense');
    expect(failure).toMatchObject({ kind: 'invalid', line: 1, fault: 'no_manifest' });
    expect(await verifier.take(lines[0] ?? '')).toBe(failure);
    expect(verifier.finish()).toBe(failure);
  });

  it('does not throw for JSON nested a hundred thousand deep', async () => {
    const deep = '['.repeat(100_000) + ']'.repeat(100_000);
    expect(await faultOf([deep])).toBe('no_manifest');
    expect(await faultOf(replaced(2, deep))).toBe('malformed');
    expect(await faultOf(replaced(2, deep.replace('[]', `[${lines[2]?.trim()}]`)))).toBe('malformed');
  });
});

describe('an export of records that have neither refers_to nor source_account', () => {
  const earlierKeys = keyset(chooseEd25519(), parseJwks(earlierJwks));

  it('verifies unchanged', async () => {
    expect(await verdictOf(earlierExportLines, earlierKeys)).toMatchObject({
      kind: 'valid',
      chains: 2,
      records: 3,
    });
  });

  it.each(['"refers_to":null,', '"source_account":"acct_01m7w2y7m1040g2081040g2081",'])(
    'does not verify with %s put in',
    async (member) => {
      const place = member.startsWith('"refers_to"') ? '"request_hash"' : '"test"';
      const changed = earlierExportLines.map((line) => line.replace(place, member + place));
      expect(await faultOf(changed, earlierKeys)).toBe('malformed');
      const both = earlierExportLines.map((line) =>
        line
          .replace('"request_hash"', '"refers_to":null,"request_hash"')
          .replace('"test"', '"source_account":"acct_01m7w2y7m1040g2081040g2081","test"'),
      );
      expect(await faultOf(both, earlierKeys)).toBe('hash_mismatch');
    },
  );
});
