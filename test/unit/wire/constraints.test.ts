import { describe, expect, it } from 'vitest';
import { makeId } from '../../../shared/model/ids.ts';
import { limits } from '../../../shared/model/limits.ts';
import type { UnixMillis } from '../../../shared/model/time.ts';
import { noConstraints, parseConstraints, renderConstraints } from '../../../shared/wire/constraints.ts';
import { refusal } from '../../support/refusal.ts';

const gate = (value: unknown) => parseConstraints(value, { param: 'constraints', of: 'gate' });
const passport = (value: unknown) => parseConstraints(value, { param: 'constraints', of: 'passport' });
const issuerId = makeId('iss', 0 as UnixMillis, new Uint8Array(10));

describe('constraints of a gate', () => {
  it('are none when nothing is said', () => {
    expect(gate({})).toEqual(noConstraints);
  });

  it('are read into units of the model', () => {
    const given = {
      spend_limits: { per_transaction_usd: 12.345678, per: 'passport', alert_at: 0.5 },
      allowed_domains: ['API.example.com:443', '*.bücher.example', 'api.example.com'],
      trusted_issuers: [issuerId, issuerId],
      proof_of_possession: 'off',
    };
    expect(gate(given)).toEqual({
      ...noConstraints,
      spendLimits: {
        perTransactionMicroUsd: 12_345_678,
        dailyMicroUsd: null,
        monthlyMicroUsd: null,
        per: 'passport',
        alertAt: 0.5,
      },
      allowedDomains: ['api.example.com', '*.xn--bcher-kva.example'],
      trustedIssuers: [issuerId],
    });
  });

  it('keep an empty list, which allows nothing, apart from no list', () => {
    expect(gate({ allowed_domains: [], trusted_issuers: [] })).toMatchObject({
      allowedDomains: [],
      trustedIssuers: [],
    });
  });

  it('read * alone as every issuer', () => {
    expect(gate({ trusted_issuers: ['*'] }).trustedIssuers).toBe('any');
  });

  it.each([
    ['constraints.spend_limits.daly_usd', { spend_limits: { daly_usd: 5 } }],
    ['constraints.spending', { spending: {} }],
    ['constraints.spend_limits.per_transaction_usd', { spend_limits: { per_transaction_usd: '5' } }],
    ['constraints.spend_limits.per_transaction_usd', { spend_limits: { per_transaction_usd: -1 } }],
    ['constraints.spend_limits.per_transaction_usd', { spend_limits: { per_transaction_usd: 1e-7 } }],
    ['constraints.spend_limits.per_transaction_usd', { spend_limits: { per_transaction_usd: 0.1234567 } }],
    [
      'constraints.spend_limits.per_transaction_usd',
      { spend_limits: { per_transaction_usd: 1_000_000_001 } },
    ],
    ['constraints.spend_limits.per_transaction_usd', { spend_limits: { per_transaction_usd: null } }],
    ['constraints.spend_limits.per', { spend_limits: { per: 'account' } }],
    ['constraints.spend_limits.alert_at', { spend_limits: { alert_at: 0 } }],
    ['constraints.spend_limits.alert_at', { spend_limits: { alert_at: 1.01 } }],
    ['constraints.spend_limits', { spend_limits: [] }],
    ['constraints.allowed_domains', { allowed_domains: 'example.com' }],
    [
      'constraints.allowed_domains',
      { allowed_domains: Array(limits.allowedDomainsMax + 1).fill('a.example') },
    ],
    ['constraints.allowed_domains.1', { allowed_domains: ['a.example', 7] }],
    ['constraints.allowed_domains.1', { allowed_domains: ['a.example', 'https://b.example'] }],
    ['constraints.allowed_domains.0', { allowed_domains: ['*'] }],
    ['constraints.trusted_issuers.0', { trusted_issuers: ['iss_1'] }],
    ['constraints.trusted_issuers.1', { trusted_issuers: [issuerId, '*'] }],
    ['constraints.proof_of_possession', { proof_of_possession: true }],
    ['constraints', []],
    ['constraints', null],
    ['constraints', 'none'],
  ])('are refused naming %s', (param, value) => {
    expect(refusal(() => gate(value))).toMatchObject({ code: 'invalid_request', param });
  });
});

describe('a constraint that is not enforced yet', () => {
  it.each([
    ['constraints.rate_limits.requests_per_minute', { rate_limits: { requests_per_minute: 10 } }],
    ['constraints.rate_limits.requests_per_hour', { rate_limits: { requests_per_hour: 10 } }],
    ['constraints.rate_limits.requests_per_day', { rate_limits: { requests_per_day: 0 } }],
    ['constraints.rate_limits.per', { rate_limits: { per: 'gate' } }],
    ['constraints.spend_limits.daily_usd', { spend_limits: { daily_usd: 5, per_transaction_usd: 1 } }],
    ['constraints.spend_limits.monthly_usd', { spend_limits: { monthly_usd: 5 } }],
    ['constraints.pii_controls', { pii_controls: { mode: 'log_only' } }],
    ['constraints.approvals', { approvals: { above_usd: 5 } }],
    ['constraints.proof_of_possession', { proof_of_possession: 'required' }],
  ])('is refused: %s', (param, value) => {
    const error = refusal(() => gate(value));
    expect(error).toMatchObject({ code: 'invalid_request', param });
    expect(error.message).toContain('not available yet');
  });

  it.each([
    ['constraints.spend_limits.daily_usd', { spend_limits: { daily_usd: 5 } }],
    ['constraints.rate_limits.requests_per_minute', { rate_limits: { requests_per_minute: 10 } }],
    ['constraints.approvals', { approvals: {} }],
  ])('is refused in a passport too: %s', (param, value) => {
    const error = refusal(() => passport(value));
    expect(error).toMatchObject({ code: 'invalid_request', param });
    expect(error.message).toContain('not available yet');
  });
});

describe('constraints of a passport', () => {
  it('are a limit on one transaction and a list of domains', () => {
    const given = { spend_limits: { per_transaction_usd: 5 }, allowed_domains: ['*.example.com'] };
    expect(renderConstraints(passport(given))).toEqual(given);
  });

  it.each([
    ['constraints.trusted_issuers', { trusted_issuers: ['*'] }],
    ['constraints.pii_controls', { pii_controls: { mode: 'block' } }],
    ['constraints.proof_of_possession', { proof_of_possession: 'off' }],
    ['constraints.spend_limits.per', { spend_limits: { per: 'passport' } }],
  ])('are refused where they belong to a gate: %s', (param, value) => {
    expect(refusal(() => passport(value))).toMatchObject({ code: 'invalid_request', param });
  });
});

describe('renderConstraints', () => {
  it('leaves out what was not chosen', () => {
    expect(renderConstraints(noConstraints)).toEqual({});
    expect(
      renderConstraints(gate({ spend_limits: { per_transaction_usd: 5, per: 'gate', alert_at: 0.8 } })),
    ).toEqual({ spend_limits: { per_transaction_usd: 5 } });
  });

  it('writes every constraint of the model, also those that cannot be set yet', () => {
    expect(
      renderConstraints({
        rateLimits: { requestsPerMinute: 1, requestsPerHour: 2, requestsPerDay: 3, per: 'passport' },
        spendLimits: null,
        allowedDomains: null,
        piiControls: { mode: 'redact', types: ['email', 'iban'] },
        approvals: { aboveMicroUsd: null, permissions: [], expiresInMs: 60_000 },
        trustedIssuers: 'any',
        proofOfPossession: 'required',
      }),
    ).toEqual({
      rate_limits: { requests_per_minute: 1, requests_per_hour: 2, requests_per_day: 3, per: 'passport' },
      pii_controls: { mode: 'redact', types: ['email', 'iban'] },
      approvals: { expires_in_s: 60 },
      trusted_issuers: ['*'],
      proof_of_possession: 'required',
    });
  });
});
