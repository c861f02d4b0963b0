import { describe, expect, it } from 'vitest';
import type { UnixMillis } from '../../../shared/model/time.ts';
import { parsePassportIssue } from '../../../shared/wire/api/passport-issue.ts';

const v1 = { path: 'v1', nowMs: 0 as UnixMillis } as const;
const api = { ...v1, path: 'api' } as const;
const parseAt = (iso: string, more: object) =>
  parsePassportIssue(
    { agent_id: 'a', permissions: [], ...more },
    { path: 'v1', nowMs: Date.parse(iso) as UnixMillis },
  );
const expiryAt = (iso: string, more: object) => {
  const { expiresAtMs } = parseAt(iso, more);
  return expiresAtMs === null ? null : new Date(expiresAtMs).toISOString();
};

describe('expiry', () => {
  it.each([
    ['2026-11-20T09:00:00.000Z', { expires_in: '1s' }, '2026-11-20T09:00:01.000Z'],
    ['2026-11-20T09:00:00.999Z', { expires_in: '1s' }, '2026-11-20T09:00:01.000Z'],
    ['2026-11-20T09:00:00.000Z', { expires_in: '90m' }, '2026-11-20T10:30:00.000Z'],
    ['2026-11-20T09:00:00.000Z', { expires_in_days: 1 }, '2026-11-21T09:00:00.000Z'],
    ['2026-11-20T09:00:00.000Z', { expires_in_days: 3_650 }, '2036-11-17T09:00:00.000Z'],
    ['2026-11-20T09:00:00.000Z', {}, '2027-02-18T09:00:00.000Z'],
  ])('at %s with %j is %s', (now, more, expected) => {
    expect(expiryAt(now, more)).toBe(expected);
  });

  it('of the machine description must lie after now, in whole seconds', () => {
    const machine = (expires_at: string) =>
      parsePassportIssue(
        { issuer_id: `iss_${'0'.repeat(26)}`, subject: {}, permissions: [], expires_at },
        { path: 'v1', nowMs: Date.parse('2026-11-20T09:00:00.000Z') as UnixMillis },
      ).expiresAtMs;
    expect(() => machine('2026-11-20T09:00:00.999Z')).toThrow('must lie in the future');
    expect(machine('2026-11-20T09:00:01.000Z')).toBe(Date.parse('2026-11-20T09:00:01Z'));
  });
});

describe('variants', () => {
  it('are told apart by subject first, then agent_type', () => {
    const both = { subject: {}, agent_type: 'custom', permissions: [] };
    expect(() => parsePassportIssue(both, v1)).toThrow('agent_type is not a field');
    expect(() => parsePassportIssue({ permissions: [] }, v1)).toThrow('agent_id is required');
  });

  it('are also told apart by the path: under /api a body without a subject is unattended', () => {
    const body = { agent_name: 'Buyer', permissions: ['orders:read'], expires_in: '24h' };
    expect(() => parsePassportIssue(body, v1)).toThrow('agent_id is required');
    expect(parsePassportIssue(body, api)).toMatchObject({ agentId: null, agentName: 'Buyer', subject: {} });
    expect(() => parsePassportIssue({ ...body, agent_id: 'a', metadata: {} }, api)).toThrow(
      'metadata is not a field',
    );
    expect(() => parsePassportIssue({ subject: {}, permissions: [] }, api)).toThrow('issuer_id is required');
  });

  it.each([null, [], 'text', 5, undefined])('refuse %j', (body) => {
    expect(() => parsePassportIssue(body, v1)).toThrow('body must be object');
  });
});
