import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { limits } from '../../../shared/model/limits.ts';
import { parseBatchItem } from '../../../shared/wire/sync/attestation-batch.ts';
import {
  inForm1,
  renderChainPart,
  renderOutcomePart,
  renderRecordRow,
  wholeRecord,
} from '../../../shared/wire/sync/spooled-record.ts';
import type { RecordRow, SharedParts } from '../../../shared/wire/sync/sync.ts';
import { attestLimits } from '../../../sidecar/attest/limits.ts';
import { anySpooledRecord } from '../../support/data/arbitrary-spooled-record.ts';
import { sampleId } from '../../support/data/sample-chains.ts';
import { inParts, spooledRecord } from '../../support/data/spooled-record.ts';

const source = { sidecarId: sampleId('side', 1), accountId: sampleId('acct', 1) };

describe('a record', () => {
  it('stays within the limit for the largest legal record', () => {
    const pii = Array.from({ length: limits.piiFindingsMax }, () => ({
      pointer: `/${'\u0001'.repeat(limits.piiPointerCharsMax - 1)}`,
      type: 'payment_card',
    }));
    const record = spooledRecord({ pii });
    expect(parseBatchItem(record, source).kind).toBe('record');
    expect(JSON.stringify(record).length).toBeLessThan(attestLimits.spoolRecordCharsMax);
  });
});

describe('a row', () => {
  it('stands for the whole record, with the parts that it names', () => {
    fc.assert(
      fc.property(anySpooledRecord, anySpooledRecord, fc.boolean(), (record, other, isFirst) => {
        const { head } = inParts(record);
        const place = isFirst ? 0 : 1;
        const row = JSON.parse(renderRecordRow(head, place, place));
        const both = isFirst ? [record, other] : [other, record];
        const chains = both.map((one) => JSON.parse(renderChainPart(one)));
        const outcomes = both.map((one) => JSON.parse(renderOutcomePart(one)));
        expect(JSON.stringify(wholeRecord(row, { chains, outcomes }))).toBe(JSON.stringify(record));
      }),
    );
  });

  it('stands in form 1 for the record without the members of form 2, and for nothing else', () => {
    fc.assert(
      fc.property(anySpooledRecord, (record) => {
        const parts = {
          chains: [JSON.parse(renderChainPart(record))],
          outcomes: [JSON.parse(renderOutcomePart(record))],
        };
        const row = inForm1(JSON.parse(renderRecordRow(inParts(record).head, 0, 0)));
        const whole = wholeRecord(row as RecordRow, inForm1(parts) as SharedParts);
        expect(whole).toEqual(inForm1(record));
        const { policy_hash: _1, trust_level: _2, state_age_ms: _3, extras: _4, ...rest } = record;
        const { wallet_path: _5, ...form1 } = rest;
        expect(whole).toEqual(form1);
      }),
    );
  });
});
