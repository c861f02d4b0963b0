import { describe, expect, it } from 'vitest';
import { jsonLineReader } from '../../../clients/node/src/verify/export-lines.ts';
import type { ExportChain } from '../../../shared/attestation/export.ts';
import { jsonWriter } from '../../../shared/attestation/export-json.ts';
import {
  exportLinesOf,
  jsonLinesOf,
  sampleChain,
  sampleId,
  sampleKey,
} from '../../support/data/sample-chains.ts';

const key = sampleKey(1);
const chains = [sampleChain(key, 3, 1), sampleChain(key, 1, 2)];
const jsonl = exportLinesOf(chains, { keyIds: [key.kid] });
const json = jsonLinesOf(chains, { keyIds: [key.kid] });
const bare = (lines: readonly string[]) => lines.map((line) => line.slice(0, -1));

describe('jsonWriter', () => {
  it('writes one JSON value, a record in each line', () => {
    expect(
      json.map((line) =>
        line
          .replaceAll(/sha256:\w+|"signature":"[^"]+"/g, '…')
          .slice(0, 60)
          .trimEnd(),
      ),
    ).toEqual([
      expect.stringMatching(/^\{"manifest":\{"created_at":/),
      expect.stringMatching(/^\{"chain_id":/),
      expect.stringMatching(/^\{"amount_micro_usd":/),
      expect.stringMatching(/^\{"amount_micro_usd":/),
      expect.stringMatching(/^\{"amount_micro_usd":/),
      ']},',
      expect.stringMatching(/^\{"chain_id":/),
      expect.stringMatching(/^\{"amount_micro_usd":/),
      ']}',
      '],"attachments":[',
      expect.stringMatching(/^\{"passport":\{"body":/),
      expect.stringMatching(/^\{"passport":\{"body":/),
      '],"end":{"chains":2,"records":4}}',
    ]);
    const { manifest, chains: written, attachments, end, ...rest } = JSON.parse(json.join(''));
    expect(rest).toEqual({});
    const values = jsonl.map((line) => JSON.parse(line));
    expect({ manifest }).toEqual(values[0]);
    expect({ end }).toEqual(values.at(-1));
    expect(attachments).toEqual(values.slice(7, 9));
    expect(written).toEqual([
      { ...values[1].chain, attestations: values.slice(2, 5) },
      { ...values[5].chain, attestations: [values[6]] },
    ]);
  });
});

describe('jsonLineReader', () => {
  const read = (lines: readonly string[]) => {
    const reader = jsonLineReader();
    return bare(lines).map((line) => {
      const found = reader(line);
      return found.kind === 'line' ? `${found.line}\n` : found.kind;
    });
  };

  it('reads the lines of the same export as jsonl', () => {
    expect(read(json).filter((line) => line !== 'closing')).toEqual(jsonl);
    expect(read(jsonLinesOf([], { keyIds: [] }))).toEqual(exportLinesOf([], { keyIds: [] }));
  });

  it.each([
    ['a line of jsonl first', [jsonl[0] ?? '']],
    ['a chain after the last chain', [...json.slice(0, 9), json[1] ?? '']],
    ['the end where a chain was announced', [...json.slice(0, 6), json.at(-1) ?? '']],
    ['a record after the last one', [...json.slice(0, 5), json[4] ?? '']],
    ['anything after the end', [...json, '\n']],
    ['a chain in brackets of jsonl', [...json.slice(0, 1), jsonl[1] ?? '']],
  ])('finds %s misplaced', (_what, lines) => {
    expect(read(lines).at(-1)).toBe('misplaced');
    expect(read(lines).slice(0, -1)).not.toContain('misplaced');
  });
});

describe('headers', () => {
  it('of a chain carry over all members', () => {
    const chain: ExportChain = {
      ...{ chainId: sampleId('pass', 9), archived: { throughSequence: 3, hash: `sha256:${'0'.repeat(64)}` } },
      ...{ logProof: 'a proof\nof\n\nlines\n', firstSequence: 4 },
      ...{ previousAttestationHash: `sha256:${'0'.repeat(64)}`, lastSequence: 5 },
      lastHash: `sha256:${'1'.repeat(64)}`,
    };
    expect(JSON.parse(`${jsonWriter().chain(chain)}]}`)).toEqual({
      ...{ archived: { hash: chain.archived?.hash, through_sequence: 3 }, chain_id: chain.chainId },
      ...{ first_sequence: 4, previous_attestation_hash: chain.previousAttestationHash, last_sequence: 5 },
      ...{ last_hash: chain.lastHash, log_proof: chain.logProof, attestations: [] },
    });
  });
});
