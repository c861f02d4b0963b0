import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { limits } from '../../../shared/model/limits.ts';
import { parseBatchItem } from '../../../shared/wire/attestation-batch.ts';
import {
  renderChainPart,
  renderOutcomePart,
  renderRecordRow,
  renderRowHead,
  wholeRecord,
} from '../../../shared/wire/spooled-record.ts';
import { attestLimits } from '../../../sidecar/attest/limits.ts';
import { anySpooledRecord } from '../../support/arbitrary-spooled-record.ts';
import { sampleId } from '../../support/sample-chains.ts';
import { spooledRecord } from '../../support/spooled-record.ts';

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
        const { id, request_hash, amount_micro_usd, timestamp_ms, took } = record;
        const head = renderRowHead(id, request_hash, amount_micro_usd, timestamp_ms, took);
        const place = isFirst ? 0 : 1;
        const row = JSON.parse(renderRecordRow(head, place, place));
        const both = isFirst ? [record, other] : [other, record];
        const chains = both.map((one) => JSON.parse(renderChainPart(one)));
        const outcomes = both.map((one) => JSON.parse(renderOutcomePart(one)));
        expect(JSON.stringify(wholeRecord(row, { chains, outcomes }))).toBe(JSON.stringify(record));
      }),
    );
  });
});
