import { describe, expect, it } from 'vitest';
import { type PiiType, piiTypes } from '../../../shared/model/constraints.ts';
import { limits } from '../../../shared/model/limits.ts';
import { scanPii } from '../../../shared/pii/scan-pii.ts';

const find = (request: Readonly<Record<string, unknown>>, types: readonly PiiType[] = piiTypes) =>
  scanPii(request, types).findings;

describe('scanning a request for personal data', () => {
  it('points at each string by its place', () => {
    expect(find({ customer: { mails: ['none', 'jane@example.com'] }, 'a/b~c': '192.0.2.1' })).toEqual([
      { pointer: '/customer/mails/1', type: 'email' },
      { pointer: '/a~1b~0c', type: 'ip_address' },
    ]);
  });

  it('points at the parent of a name that is personal data', () => {
    expect(find({ people: { 'jane@example.com': 1 } })).toEqual([{ pointer: '/people', type: 'email' }]);
    expect(find({ 'jane@example.com': 1 })).toEqual([{ pointer: '', type: 'email' }]);
  });

  it('points at the nearest ancestor where the pointer would be too long, hold U+0000 or half a character', () => {
    const room = limits.piiPointerCharsMax - '/a/'.length;
    expect(find({ a: { ['x'.repeat(room)]: 'jane@example.com' } })).toEqual([
      { pointer: `/a/${'x'.repeat(room)}`, type: 'email' },
    ]);
    for (const name of ['x'.repeat(room + 1), 'x\0', '\ud800']) {
      expect(find({ a: { [name]: 'jane@example.com' } })).toEqual([{ pointer: '/a', type: 'email' }]);
    }
  });

  it('points at the request itself where all pointers together would be too long', () => {
    const long = '\u0001'.repeat(500);
    const list = Array.from({ length: limits.piiFindingsMax }, () => 'jane@example.com');
    const { findings, isComplete } = scanPii({ [long]: list, note: 'from 192.0.2.1' }, piiTypes);
    expect(findings).toEqual([
      { pointer: `/${long}/0`, type: 'email' },
      { pointer: '', type: 'email' },
      { pointer: '/note', type: 'ip_address' },
    ]);
    expect(isComplete).toBe(true);
    const usual = Array.from({ length: limits.piiFindingsMax }, () => ({ address: 'jane@example.com' }));
    const pointers = find({ ['x'.repeat(100)]: usual }).map(({ pointer }) => pointer);
    expect(pointers).toHaveLength(limits.piiFindingsMax);
    expect(JSON.stringify(pointers).length).toBeLessThan(limits.piiPointersJsonCharsMax + 100);
  });

  it('lists at most the permitted number of findings, the first ones', () => {
    const list = Array.from({ length: limits.piiFindingsMax + 8 }, (_, index) => `jane${index}@example.com`);
    const { findings, isComplete } = scanPii({ list }, piiTypes);
    expect(findings).toHaveLength(limits.piiFindingsMax);
    expect(findings.at(-1)).toEqual({ pointer: `/list/${limits.piiFindingsMax - 1}`, type: 'email' });
    expect(isComplete).toBe(true);
  });

  it('does not take the digits of an IBAN for anything else where IBANs are not wanted', () => {
    expect(find({ text: 'DE89 3704 0044 0532 0130 00' }, ['payment_card', 'phone', 'us_ssn'])).toEqual([]);
  });

  it('is complete up to the last character of the room, and looks at nothing after it', () => {
    const room = limits.piiScanCharsMax - 'text'.length;
    expect(scanPii({ text: 'x'.repeat(room) }, piiTypes)).toEqual({ findings: [], isComplete: true });
    expect(scanPii({ text: 'x'.repeat(room + 1) }, piiTypes)).toEqual({ findings: [], isComplete: false });
    expect(scanPii({ text: 'x'.repeat(room), more: 'jane@example.com' }, piiTypes)).toEqual({
      findings: [],
      isComplete: false,
    });
    expect(scanPii({ text: `jane@example.com ${'x'.repeat(room)}` }, piiTypes)).toEqual({
      findings: [{ pointer: '/text', type: 'email' }],
      isComplete: false,
    });
  });

  it('counts a text that NFKC makes longer by its longer form', () => {
    // U+FDFA becomes 18 characters.
    const text = '\ufdfa'.repeat(1_000);
    expect(scanPii({ text }, piiTypes).isComplete).toBe(false);
    expect(scanPii({ text: text.slice(0, 900) }, piiTypes).isComplete).toBe(true);
  });

  it('is incomplete where candidates for phone numbers outnumber its checks', () => {
    const many = (count: number) => Array.from({ length: count }, () => '+999123456').join(', ');
    expect(scanPii({ text: many(limits.piiPhoneChecksMax) }, piiTypes).isComplete).toBe(true);
    expect(scanPii({ text: many(limits.piiPhoneChecksMax + 1) }, piiTypes).isComplete).toBe(false);
    expect(scanPii({ text: many(limits.piiPhoneChecksMax + 1) }, ['email']).isComplete).toBe(true);
  });

  it('is incomplete below the depth that bodies may have', () => {
    const nested = (depth: number): unknown => (depth === 0 ? 'jane@example.com' : [nested(depth - 1)]);
    expect(scanPii({ a: nested(limits.jsonDepthMax - 1) }, piiTypes).isComplete).toBe(true);
    expect(scanPii({ a: nested(5_000) }, piiTypes).isComplete).toBe(false);
  });

  it('takes ids, keys and hashes of requests for nothing else', () => {
    const request = {
      permission_key: 'orders:create',
      gate_id: 'gate_01hq3v4k5m6n7p8q9r0s1t2v3w',
      approval_id: 'appr_00000000000000000000000000',
      idempotency_key: '6f9619ff-8b86-4011-b42d-004155550132',
      proof: 'eyJhbGciOiJFZERTQSJ9.eyJqdGkiOiI0MTU1NTUwMTMyIn0.MEUCIQD4-4111111111111111_x',
      request_hash: `sha256:${'0123456789abcdef'.repeat(4)}`,
    };
    expect(find(request)).toEqual([]);
  });
});
