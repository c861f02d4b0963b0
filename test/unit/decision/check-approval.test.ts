import { describe, expect, it } from 'vitest';
import { noGate } from '../../../shared/decision/compile-gate.ts';
import { decide } from '../../../shared/decision/decide.ts';
import { noWindows } from '../../../shared/decision/facts.ts';
import type { PresentedApproval } from '../../../shared/model/approval.ts';
import type { CatalogTerms } from '../../../shared/model/catalog.ts';
import {
  aGate,
  aPassport,
  aRequest,
  aStanding,
  aWindow,
  decideAt,
  nowMs,
  permissionKey,
  usd,
} from './samples.ts';

const above10 = { approvals: { above_usd: 10, expires_in_s: 600 } };
const withApproval = ['passport', 'trust_level', 'issuer', 'permission', 'approval'];
const twenty = { amountMicroUsd: usd(20) };

describe('the rule of a gate', () => {
  it.each([
    [10, 'PERMIT'],
    [10.000001, 'SUSPEND'],
  ])('asks above its amount: %d of 10 is %s', (amount, outcome) => {
    const decision = decideAt({ constraints: above10, request: { amountMicroUsd: usd(amount) } });
    expect(decision).toMatchObject({ outcome, evaluated: withApproval });
  });

  it('blocks a request without an amount, unless the gate lets it count as nothing', () => {
    expect(decideAt({ constraints: above10 })).toMatchObject({ outcome: 'BLOCK', reason: 'amount_missing' });
    const lenient = { ...above10, spend_limits: { unpriced: 'permit' } };
    expect(decideAt({ constraints: lenient }).outcome).toBe('PERMIT');
  });

  it('holds the money and no request', () => {
    expect(decideAt({ constraints: above10, request: twenty })).toMatchObject({
      reason: 'approval_required',
      charge: { moneyMicroUsd: 20_000_000, requests: 0 },
      approvalExpiresInMs: 600_000,
    });
  });

  it.each([
    [['orders:create'], 'SUSPEND'],
    [['orders:*'], 'SUSPEND'],
    [['mail:send', 'orders:create'], 'SUSPEND'],
    [['orders:read'], 'PERMIT'],
    [['orders2:*'], 'PERMIT'],
    [[], 'PERMIT'],
  ])('asks for the permissions %j: %s', (permissions, outcome) => {
    expect(decideAt({ constraints: { approvals: { permissions } } }).outcome).toBe(outcome);
  });

  it('waits an hour unless it says otherwise', () => {
    const constraints = { approvals: { permissions: ['orders:create'] } };
    expect(decideAt({ constraints }).approvalExpiresInMs).toBe(3_600_000);
  });
});

describe('an entry of the catalog that requires an approval', () => {
  const catalog: CatalogTerms = new Map([
    [permissionKey('orders:create'), { priceMicroUsd: usd(3), requiresApproval: true }],
    [permissionKey('orders:read'), { priceMicroUsd: null, requiresApproval: false }],
  ]);
  const passport = aPassport({ permissions: ['orders:*'] });

  it('asks for itself and for no other', () => {
    expect(decideAt({ catalog, passport })).toMatchObject({
      outcome: 'SUSPEND',
      evaluated: withApproval,
      charge: { moneyMicroUsd: 3_000_000, requests: 0 },
      approvalExpiresInMs: 3_600_000,
    });
    const request = { permissionKey: permissionKey('orders:read') };
    const decision = decideAt({ catalog, passport, request });
    expect(decision.outcome).toBe('PERMIT');
    expect(decision.evaluated).not.toContain('approval');
  });

  it('waits as long as the rule of its gate', () => {
    expect(decideAt({ catalog, constraints: above10 }).approvalExpiresInMs).toBe(600_000);
  });
});

describe("a passport's own rule", () => {
  const passport = aPassport({ constraints: { approvals: { above_usd: 15, expires_in_s: 60 } } });

  it('asks besides the rule of the gate, and the shorter time counts', () => {
    expect(decideAt({ passport, request: twenty }).approvalExpiresInMs).toBe(60_000);
    expect(decideAt({ passport, constraints: above10, request: twenty }).approvalExpiresInMs).toBe(60_000);
    const twelve = { amountMicroUsd: usd(12) };
    expect(decideAt({ passport, constraints: above10, request: twelve }).approvalExpiresInMs).toBe(600_000);
  });

  const decideWithoutGate = (approval: PresentedApproval) =>
    decide(
      noGate(aGate()),
      { kind: 'verified', passport, standing: aStanding() },
      aRequest({ ...twenty, approval }),
      noWindows,
      nowMs,
    );

  it('blocks where there is no gate that could ask', () => {
    expect(decideWithoutGate('none')).toMatchObject({
      outcome: 'BLOCK',
      reason: 'approval_required',
      charge: null,
      approvalExpiresInMs: null,
      hold: null,
    });
  });

  it.each<PresentedApproval>(['unasked', 'pending', 'approved', 'used'])(
    'accepts no approval without a gate, whatever its state: %s',
    (approval) => {
      expect(decideWithoutGate(approval)).toMatchObject({ reason: 'approval_mismatch', unknown: null });
    },
  );
});

describe('an approval that is presented', () => {
  const decideWith = (approval: PresentedApproval, more: Parameters<typeof decideAt>[0] = {}) =>
    decideAt({ constraints: above10, ...more, request: { ...twenty, approval, ...more.request } });

  it.each([
    ['mismatch', 'approval_mismatch'],
    ['denied', 'approval_denied'],
    ['expired', 'approval_expired'],
    ['used', 'approval_used'],
  ] as const)('and is %s blocks right after the permission', (approval, reason) => {
    const constraints = { ...above10, allowed_domains: [] };
    expect(decideWith(approval, { constraints })).toMatchObject({
      outcome: 'BLOCK',
      reason,
      evaluated: ['passport', 'trust_level', 'issuer', 'permission'],
    });
  });

  it('has to be looked up before anything is decided on it', () => {
    expect(decideWith('unasked', { constraints: { allowed_domains: [] } })).toMatchObject({
      outcome: 'BLOCK',
      reason: 'quota_unavailable',
      unknown: 'approval',
      evaluated: ['passport', 'trust_level', 'issuer', 'permission'],
    });
  });

  it('is not looked up for a request that is blocked before', () => {
    const request = { permissionKey: permissionKey('orders:delete') };
    expect(decideWith('unasked', { request })).toMatchObject({
      reason: 'permission_not_granted',
      unknown: null,
    });
  });

  it('and is pending is answered again, and holds nothing more', () => {
    expect(decideWith('pending')).toMatchObject({
      outcome: 'SUSPEND',
      reason: 'approval_required',
      evaluated: withApproval,
      charge: null,
      approvalExpiresInMs: null,
      hold: null,
    });
  });

  it('and is approved permits, takes a request and no money', () => {
    expect(decideWith('approved')).toMatchObject({
      outcome: 'PERMIT',
      reason: null,
      evaluated: withApproval,
      amountMicroUsd: 20_000_000,
      charge: { moneyMicroUsd: 0, requests: 1 },
    });
  });

  it('passes no other check', () => {
    expect(decideWith('approved', { constraints: { ...above10, allowed_domains: [] } }).reason).toBe(
      'domain_missing',
    );
    expect(decideWith('pending', { constraints: { ...above10, allowed_domains: [] } }).reason).toBe(
      'domain_missing',
    );
  });
});

describe('a request that waits', () => {
  const constraints = { ...above10, rate_limits: { requests_per_minute: 100 } };
  const decideWith = (rate: Partial<ReturnType<typeof aWindow>>, approval: PresentedApproval = 'none') =>
    decideAt({ constraints, request: { ...twenty, approval }, quota: { rate: [aWindow(rate)] } });

  it('needs a request of the window to be there, and takes none', () => {
    expect(decideWith({ available: 1 })).toMatchObject({ outcome: 'SUSPEND', charge: { requests: 0 } });
    expect(decideWith({ available: 0, isFinal: true }).reason).toBe('rate_limit_exceeded');
    expect(decideWith({ available: 0 }).unknown).toBe('leases');
    expect(decideWith({ available: 0 }, 'pending').unknown).toBe('leases');
  });
});
