import { describe, expect, it } from 'vitest';
import { piiTypes } from '../../../shared/model/constraints.ts';
import { limits } from '../../../shared/model/limits.ts';
import { redactRequest } from '../../../shared/pii/redact-request.ts';
import { scanPii } from '../../../shared/pii/scan-pii.ts';

describe('redacting a request', () => {
  it('replaces each value inside its string and leaves the rest, and the original, as it was', () => {
    const request = Object.freeze({
      note: 'Call +49 30 23125001 or write to jane@example.com.',
      amount: 12.5,
      tags: Object.freeze(['a', '192.0.2.1', null, true]),
    });
    const before = structuredClone(request);
    expect(redactRequest(request, piiTypes)).toEqual({
      request: {
        note: 'Call [redacted:phone] or write to [redacted:email].',
        amount: 12.5,
        tags: ['a', '[redacted:ip_address]', null, true],
      },
      redactions: [
        { pointer: '/note', type: 'email' },
        { pointer: '/note', type: 'phone' },
        { pointer: '/tags/1', type: 'ip_address' },
      ],
    });
    expect(request).toEqual(before);
  });

  it('hands back the request itself where there is nothing to redact', () => {
    const request = { note: 'ﬁne', phone: 'none' };
    expect(redactRequest(request, piiTypes).request).toBe(request);
  });

  it('replaces names too, and loses no member where two become the same', () => {
    const request = { 'a@example.com': 1, 'b@example.com': 2, '[redacted:email]': 3, 'c@example.com': 4 };
    const { request: copy, redactions } = redactRequest(request, piiTypes);
    expect(redactions).toEqual([{ pointer: '', type: 'email' }]);
    expect(copy).toEqual({
      ...{ '[redacted:email]_2': 1, '[redacted:email]_3': 2, '[redacted:email]': 3 },
      '[redacted:email]_4': 4,
    });
  });

  it('redacts what only the name of its member gave away, also where that name is replaced', () => {
    const { request: copy } = redactRequest({ 'a@example.com tel': '4155550132' }, piiTypes);
    expect(copy).toEqual({ '[redacted:email] tel': '[redacted:phone]' });
    const { request: other } = redactRequest({ 'tel of a@example.com': '4155550132' }, piiTypes);
    expect(other).toEqual({ 'tel of [redacted:email]': '[redacted:phone]' });
  });

  it('redacts findings beyond the list, too', () => {
    const list = Array.from({ length: limits.piiFindingsMax + 8 }, (_, index) => `jane${index}@example.com`);
    const { request, redactions } = redactRequest({ list }, piiTypes);
    expect(redactions).toHaveLength(limits.piiFindingsMax);
    expect(request['list']).toEqual(list.map(() => '[redacted:email]'));
  });

  it('does not take the words in its own marks for an announcement', () => {
    const { request } = redactRequest(
      { text: '+49 30 23125001 4155550132, 457-55-5462 123456789' },
      piiTypes,
    );
    expect(request['text']).toBe('[redacted:phone] 4155550132, [redacted:us_ssn] 123456789');
    expect(scanPii(request, piiTypes).findings).toEqual([]);
  });
});
