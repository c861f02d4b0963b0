import { describe, expect, it } from 'vitest';
import { parseLeaseOutcome } from '../../../shared/wire/sync/lease-call.ts';

// What a call may say is tested where it is answered: test/api/sync-leases.test.ts.

const grant = { granted: 3, limit: 10, leased: 7, starts_at_ms: 60_000, ends_at_ms: 120_000, left_ms: 12 };
const outcomeOf = (status: number, body: unknown) => parseLeaseOutcome(status, JSON.stringify(body));

describe('parseLeaseOutcome', () => {
  it('reads grants, also of limits that are gone and with fields of a later version', () => {
    expect(outcomeOf(200, { grants: [grant, { ...grant, limit: null }] })).toEqual({
      kind: 'granted',
      answer: { grants: [grant, { ...grant, limit: null }] },
    });
    expect(outcomeOf(200, { grants: [{ ...grant, more: 1 }], more: 1 })).toMatchObject({ kind: 'granted' });
  });

  it.each([
    ['holder_unknown', 'holder_unknown'],
    ['connection_superseded', 'superseded'],
    ['connection_unknown', 'reconnect'],
  ])('reads the refusal %s', (code, kind) => {
    expect(outcomeOf(409, { error: { code, message: 'x', status: 409 } })).toEqual({ kind });
  });

  it.each([
    ['half a unit', 200, { grants: [{ ...grant, granted: 0.5 }] }],
    ['no time', 200, { grants: [{ ...grant, left_ms: undefined }] }],
    ['an error that says 200', 200, { error: { code: 'holder_unknown' } }],
    ['grants that say 503', 503, { grants: [grant] }],
    ['the same refusal with another status', 400, { error: { code: 'holder_unknown' } }],
  ])('takes %s for no answer', (_, status, body) => {
    expect(outcomeOf(status, body)).toBeNull();
  });

  it('reads anything but JSON as no answer', () => {
    expect(parseLeaseOutcome(200, '<html>')).toBeNull();
  });
});
