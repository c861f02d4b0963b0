import { expect, it } from 'vitest';
import { signedEnvelopes } from '../../../../control-plane/attestations/envelope-signer.ts';
import { attestationsLimits } from '../../../../control-plane/attestations/limits.ts';
import { dsseWriter } from '../../../../shared/attestation/export-dsse.ts';
import { must } from '../../../../shared/errors/assert.ts';
import { sampleChain, sampleKey } from '../../../support/data/sample-chains.ts';

const { exportSliceRowsMax, exportSignedAtOnceMax } = attestationsLimits;

it('makes the envelopes of a slice a few at a time, with a turn of the event loop after each', async () => {
  const key = sampleKey(1);
  const sign = (text: string) => Buffer.from(key.sign(text), 'base64url');
  const { record, signing } = dsseWriter({ keyId: key.kid, sign });
  for (const each of sampleChain(key, exportSliceRowsMax)) record(each);
  let turns = 0;
  let isOver = false;
  const turn = () => {
    turns += 1;
    if (!isOver) setImmediate(turn);
  };
  setImmediate(turn);
  const asked: number[] = [];
  const turnsBefore: number[] = [];
  let lines = 0;
  const pieces = signedEnvelopes(must(signing, 'dsse signs'), {
    // At once, as without threads: nothing else lets the event loop go on.
    signRecords: async (records) => {
      asked.push(records.length);
      turnsBefore.push(turns);
      return records.map(({ text }) => sign(text));
    },
  });
  for await (const piece of pieces) lines += piece.trimEnd().split('\n').length;
  isOver = true;
  expect(lines).toBe(exportSliceRowsMax);
  expect(Math.max(...asked)).toBe(exportSignedAtOnceMax);
  expect(asked).toHaveLength(Math.ceil(exportSliceRowsMax / exportSignedAtOnceMax));
  const between = turnsBefore.slice(1).map((count, place) => count - must(turnsBefore[place], 'one before'));
  expect(Math.min(...between)).toBeGreaterThanOrEqual(1);
});
