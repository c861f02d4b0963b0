import { describe, expect, it } from 'vitest';
import { csvHeader, csvWriter } from '../../../shared/attestation/export-csv.ts';
import type { Attestation } from '../../../shared/model/attestation.ts';
import type { PermissionKey } from '../../../shared/model/permission.ts';
import { renderAttestation } from '../../../shared/wire/evidence/attestation.ts';
import { readCsv } from '../../support/base/read-csv.ts';
import { at, chainOf, sampleExtras, sampleKey, sampleRecord } from '../../support/data/sample-chains.ts';

const [record] = chainOf([sampleRecord(1)], sampleKey(1)) as [Attestation];

function rowOf(change: Partial<Attestation>): Record<string, string> {
  const writer = csvWriter();
  const text =
    writer.manifest({ form: 2, createdAtMs: at(0), sinceMs: null, generation: null, keyIds: [] }) +
    writer.record({ ...record, ...change }) +
    writer.end({ chains: 1, records: 1, broken: [], brokenUnnamed: 0 });
  const [row = {}, ...rest] = readCsv(text);
  expect(rest).toEqual([]);
  return row;
}

describe('csvWriter', () => {
  it('has a column for every member of a record', () => {
    const whole = renderAttestation({ ...record, ...sampleExtras });
    expect(csvHeader.split(',').sort()).toEqual(Object.keys(whole));
  });

  it('writes null and an empty list as an empty cell, numbers and truth as they are', () => {
    expect(rowOf({ reason: null, resolution: null, pii: [], constraintsEvaluated: [] })).toMatchObject({
      ...{ reason: '', resolution: '', pii: '', constraints_evaluated: '', amount_micro_usd: '12500000' },
      ...{ sequence: '1', test: 'false' },
    });
    expect(rowOf({ amountMicroUsd: 0 as Attestation['amountMicroUsd'] })).toMatchObject({
      amount_micro_usd: '0',
    });
  });

  it('writes names of checks side by side, and findings as JSON', () => {
    const pii = [{ pointer: '/a "b", c\r\nd', type: 'email' }];
    const row = rowOf({ pii, constraintsEvaluated: ['passport', 'permission'] });
    expect(row).toMatchObject({ constraints_evaluated: 'passport permission' });
    expect(JSON.parse(row['pii'] ?? '')).toEqual(pii);
  });

  it.each(['=', '+', '-', '@', '\t', '\r', '\n', '\uff1d', '\uff0b', '\uff0d', '\uff20'])(
    'puts an apostrophe before a cell that begins with %j',
    (start) => {
      const text = `${start}cmd|' /C calc'!A0`;
      const row = rowOf({ permissionKey: text as PermissionKey, signature: `${start}${'A'.repeat(85)}` });
      expect(row).toMatchObject({ permission_key: `'${text}`, signature: `'${start}${'A'.repeat(85)}` });
    },
  );

  it('leaves the same characters alone further on', () => {
    const permissionKey = 'a=b:c-d@e+f' as PermissionKey;
    expect(rowOf({ permissionKey })).toMatchObject({ permission_key: permissionKey });
  });
});
