import { describe, expect, it } from 'vitest';
import { makeId } from '../../../shared/model/ids.ts';
import { limits } from '../../../shared/model/limits.ts';
import type { PermissionKey } from '../../../shared/model/permission.ts';
import type { UnixMillis } from '../../../shared/model/time.ts';
import {
  hideFromOlder,
  noConstraints,
  parseConstraints,
  renderConstraints,
} from '../../../shared/wire/api/constraints.ts';
import { mergePatch } from '../../../shared/wire/api/merge-patch.ts';
import { refusal } from '../../support/base/refusal.ts';

const gate = (value: unknown) => parseConstraints(value, { param: 'constraints', of: 'gate' });
const passport = (value: unknown) => parseConstraints(value, { param: 'constraints', of: 'passport' });
const issuerId = makeId('iss', 0 as UnixMillis, new Uint8Array(10));
const userId = 'usr_01m7w8f9wq3n5k7s9t1w2x4y6z';

describe('constraints of a gate', () => {
  it('are none when nothing is said', () => {
    expect(gate({})).toEqual(noConstraints);
  });

  it('are read into units of the model', () => {
    const given = {
      rate_limits: { requests_per_minute: 0, requests_per_hour: 10, requests_per_day: 100, per: 'passport' },
      spend_limits: {
        per_transaction_usd: 12.345678,
        daily_usd: 0,
        monthly_usd: 1e9,
        per: 'passport',
        alert_at: 0.5,
      },
      pii_controls: { mode: 'redact', types: ['iban', 'email', 'iban'] },
      approvals: {
        above_usd: 0.5,
        permissions: ['orders:*', 'orders:*'],
        expires_in_s: 60,
        approvers: {
          roles: ['admin', 'admin'],
          users: [userId, userId],
          ...{ count: 2, not_requester: false, independent: true },
        },
        passkey: true,
      },
      allowed_domains: ['API.example.com:443', '*.bücher.example', 'api.example.com'],
      trusted_issuers: [issuerId, issuerId],
      proof_of_possession: 'off',
    };
    expect(gate(given)).toEqual({
      ...noConstraints,
      spendLimits: {
        ...{ perTransactionMicroUsd: 12_345_678, dailyMicroUsd: 0, monthlyMicroUsd: 1e15, per: 'passport' },
        ...{ alertAt: 0.5, unpriced: 'block' },
      },
      rateLimits: { requestsPerMinute: 0, requestsPerHour: 10, requestsPerDay: 100, per: 'passport' },
      piiControls: { mode: 'redact', types: ['iban', 'email'] },
      approvals: {
        ...{ aboveMicroUsd: 500_000, permissions: ['orders:*'], expiresInMs: 60_000 },
        approvers: {
          roles: ['admin'],
          users: [userId],
          count: 2,
          notRequester: false,
          notOwner: false,
          independent: true,
        },
        passkey: true,
      },
      allowedDomains: ['api.example.com', '*.xn--bcher-kva.example'],
      trustedIssuers: { own: false, named: [issuerId] },
    });
  });

  it('keep an empty list, which allows nothing, apart from no list', () => {
    expect(gate({ allowed_domains: [], trusted_issuers: [] })).toMatchObject({
      allowedDomains: [],
      trustedIssuers: { own: false, named: [] },
    });
  });

  it('have defaults where little is said', () => {
    const approvals = { approvers: {} };
    const given = { rate_limits: {}, spend_limits: {}, pii_controls: { mode: 'block' }, approvals };
    expect(gate(given)).toMatchObject({
      rateLimits: { requestsPerMinute: null, requestsPerHour: null, requestsPerDay: null, per: 'gate' },
      spendLimits: {
        ...{ perTransactionMicroUsd: null, dailyMicroUsd: null, per: 'gate', alertAt: 0.8 },
        unpriced: 'block',
      },
      piiControls: { types: ['email', 'phone', 'payment_card', 'iban', 'us_ssn', 'ip_address'] },
      approvals: {
        ...{ aboveMicroUsd: null, permissions: [], expiresInMs: 3_600_000 },
        ...{ approvers: { roles: null, users: null, count: 1, notRequester: true }, passkey: false },
      },
    });
  });

  it('read own in a list as the issuers of the account, and write it back', () => {
    const read = gate({ trusted_issuers: [issuerId, 'own'], spend_limits: { unpriced: 'permit' } });
    expect(read.trustedIssuers).toEqual({ own: true, named: [issuerId], ownAt: 1 });
    expect(renderConstraints(read)).toEqual({
      trusted_issuers: [issuerId, 'own'],
      spend_limits: { unpriced: 'permit' },
    });
  });

  it('read * alone as every issuer', () => {
    expect(gate({ trusted_issuers: ['*'] }).trustedIssuers).toBe('any');
  });

  it.each([
    ['constraints.spend_limits.daly_usd', { spend_limits: { daly_usd: 5 } }],
    ['constraints.spending', { spending: {} }],
    ['constraints.spend_limits.per_transaction_usd', { spend_limits: { per_transaction_usd: -1 } }],
    ['constraints.spend_limits.alert_at', { spend_limits: { alert_at: 0 } }],
    ['constraints.allowed_domains', { allowed_domains: 'example.com' }],
    [
      'constraints.allowed_domains',
      { allowed_domains: Array(limits.allowedDomainsMax + 1).fill('a.example') },
    ],
    ['constraints.allowed_domains.1', { allowed_domains: ['a.example', 'https://b.example'] }],
    ['constraints.allowed_domains.0', { allowed_domains: ['*'] }],
    ['constraints.trusted_issuers.1', { trusted_issuers: [issuerId, '*'] }],
    ['constraints.rate_limits.requests_per_minute', { rate_limits: { requests_per_minute: -1 } }],
    ['constraints.pii_controls.mode', { pii_controls: {} }],
    ['constraints.pii_controls.types', { pii_controls: { mode: 'block', types: [] } }],
    ['constraints.approvals.permissions.0', { approvals: { permissions: ['orders'] } }],
    ['constraints.approvals.expires_in_s', { approvals: { expires_in_s: 0 } }],
    ['constraints.approvals.expires_in_s', { approvals: { expires_in_s: 604_801 } }],
    ['constraints.approvals.approvers.roles.0', { approvals: { approvers: { roles: ['auditor'] } } }],
    ['constraints.approvals.approvers.users', { approvals: { approvers: { users: [] } } }],
    ['constraints.approvals.approvers.count', { approvals: { approvers: { count: 6 } } }],
    ['constraints.approvals.passkey', { approvals: { passkey: 1 } }],
    ['constraints', []],
    ['constraints', null],
  ])('are refused naming %s', (param, value) => {
    expect(refusal(() => gate(value))).toMatchObject({ code: 'invalid_request', param });
  });
});

describe('a proof of possession', () => {
  it.each([
    ['off', 'off', undefined],
    ['required', 'sidecar', 'required'],
    [{ mode: 'required' }, 'sidecar', 'required'],
    [{ mode: 'required', replay: 'sidecar' }, 'sidecar', 'required'],
    [{ mode: 'required', replay: 'exact' }, 'exact', { mode: 'required', replay: 'exact' }],
  ])('is demanded by a gate, a template and a passport: %j', (given, demand, rendered) => {
    for (const of of ['gate', 'template', 'passport'] as const) {
      const parsed = parseConstraints({ proof_of_possession: given }, { param: 'constraints', of });
      expect(parsed.proofOfPossession).toBe(demand);
      expect(renderConstraints(parsed).proof_of_possession).toEqual(rendered);
    }
  });

  it.each([true, 'on', {}, { mode: 'off' }, { replay: 'exact' }, { mode: 'required', replay: 'never' }])(
    'is not demanded in other words: %j',
    (given) => {
      const error = refusal(() => gate({ proof_of_possession: given }));
      expect(error.code).toBe('invalid_request');
      expect(error.param).toMatch(/^constraints\.proof_of_possession/);
    },
  );
});

describe('constraints of a passport', () => {
  it('are limits, approvals and a list of domains', () => {
    const given = {
      rate_limits: { requests_per_minute: 5 },
      spend_limits: { per_transaction_usd: 5, daily_usd: 10, monthly_usd: 100 },
      approvals: { above_usd: 2 },
      allowed_domains: ['*.example.com'],
    };
    expect(renderConstraints(passport(given))).toEqual(given);
  });

  it.each([
    ['constraints.trusted_issuers', { trusted_issuers: ['*'] }],
    ['constraints.pii_controls', { pii_controls: { mode: 'block' } }],
    ['constraints.spend_limits.per', { spend_limits: { per: 'passport' } }],
    ['constraints.rate_limits.per', { rate_limits: { per: 'passport' } }],
  ])('are refused where they belong to a gate: %s', (param, value) => {
    expect(refusal(() => passport(value))).toMatchObject({ code: 'invalid_request', param });
  });
});

describe('renderConstraints', () => {
  it('leaves out unset members', () => {
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
        approvals: {
          aboveMicroUsd: null,
          permissions: [],
          expiresInMs: 60_000,
          approvers: {
            roles: null,
            users: null,
            count: 1,
            notRequester: true,
            notOwner: false,
            independent: false,
          },
          passkey: true,
        },
        trustedIssuers: 'any',
        proofOfPossession: 'exact',
        holds: { expiresInMs: 60_000, onExpiry: 'release', overrun: 'charge' },
        conditions: [
          { id: 'a', require: 'true', permissions: null, otherwise: 'block', message: null },
          {
            ...{ id: 'b', require: 'false', otherwise: 'approve', message: 'Ask.' },
            permissions: ['orders:*' as PermissionKey],
          },
        ],
      }),
    ).toEqual({
      rate_limits: { requests_per_minute: 1, requests_per_hour: 2, requests_per_day: 3, per: 'passport' },
      pii_controls: { mode: 'redact', types: ['email', 'iban'] },
      approvals: { expires_in_s: 60, approvers: {}, passkey: true },
      trusted_issuers: ['*'],
      proof_of_possession: { mode: 'required', replay: 'exact' },
      holds: { expires_in_s: 60, on_expiry: 'release', overrun: 'charge' },
      conditions: [
        { id: 'a', require: 'true' },
        { id: 'b', require: 'false', permissions: ['orders:*'], otherwise: 'approve', message: 'Ask.' },
      ],
    });
  });
});

describe('what sidecars are told of a gate', () => {
  const perUser = { requests_per_day: 3, per: 'user' as const };
  const money = { daily_usd: 5, per: 'user' as const };

  it.each([
    [{ rate_limits: perUser }],
    [{ spend_limits: money, trusted_issuers: ['own'], allowed_domains: ['api.example.com'] }],
    [{ spend_limits: { daily_usd: 5 }, rate_limits: perUser, proof_of_possession: 'required' as const }],
  ])('has those of 0.3.0 trust nobody where a limit counts for each user: %j', (given) => {
    const { constraints, constraints_patch: patch = {}, conditions_patch: newer = {} } = hideFromOlder(given);
    // What 0.3.0 makes of it, which knows no such limit.
    const older = mergePatch(constraints, patch);
    expect(gate(older)).toMatchObject({ trustedIssuers: { own: false, named: [] } });
    expect(JSON.stringify(older)).not.toContain('user');
    expect(mergePatch(older, newer)).toEqual(given);
  });

  it('is the truth else', () => {
    for (const per of ['gate', 'passport'] as const) {
      const given = { rate_limits: { ...perUser, per }, spend_limits: { ...money, per } };
      expect(hideFromOlder(given)).toEqual({ constraints: given });
    }
  });
});
