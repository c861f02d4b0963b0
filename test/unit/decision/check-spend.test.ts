import { describe, expect, it } from 'vitest';
import { countedAmount } from '../../../shared/decision/check-spend.ts';
import { compileGate } from '../../../shared/decision/compile-gate.ts';
import { decide } from '../../../shared/decision/decide.ts';
import { noWindows } from '../../../shared/decision/facts.ts';
import type { PresentedApproval } from '../../../shared/model/approval.ts';
import type { CatalogTerms, PermissionTerms } from '../../../shared/model/catalog.ts';
import type { PermissionKey } from '../../../shared/model/permission.ts';
import { parseRequestFacts } from '../../../shared/wire/check.ts';
import { aGate, aPassport, aStanding, aWindow, decideAt, nowMs, permissionKey, usd } from './samples.ts';

const priced: CatalogTerms = new Map<PermissionKey, PermissionTerms>([
  [permissionKey('orders:create'), { priceMicroUsd: usd(0.25), requiresApproval: false }],
  [permissionKey('orders:read'), { priceMicroUsd: null, requiresApproval: false }],
]);

describe('countedAmount', () => {
  const withCatalog = compileGate(aGate(), priced);
  const amountOf = (request: Record<string, unknown>) =>
    countedAmount(withCatalog, parseRequestFacts(request));

  it("is the request's own amount, also where the catalog has a price", () => {
    expect(amountOf({ permission_key: 'orders:create', amount: 5 })).toBe(5_000_000);
    expect(amountOf({ permission_key: 'orders:create', amount: 0 })).toBe(0);
  });

  it('is the price per call where the request has none', () => {
    expect(amountOf({ permission_key: 'orders:create' })).toBe(250_000);
  });

  it('is null where neither gives one', () => {
    expect(amountOf({ permission_key: 'orders:read' })).toBeNull();
    expect(amountOf({ permission_key: 'orders:other' })).toBeNull();
    expect(amountOf({})).toBeNull();
    expect(
      countedAmount(compileGate(aGate()), parseRequestFacts({ permission_key: 'orders:create' })),
    ).toBeNull();
  });

  it('is null for another currency, so that no record takes euros for dollars', () => {
    expect(amountOf({ permission_key: 'orders:create', amount: 5, currency: 'EUR' })).toBeNull();
  });
});

describe('a gate with a catalog', () => {
  const gate = compileGate(aGate({ spend_limits: { per_transaction_usd: 0.2 } }), priced);
  const decideFor = (request: Record<string, unknown>) =>
    decide(
      gate,
      { kind: 'verified', passport: aPassport({ permissions: ['orders:*'] }), standing: aStanding() },
      parseRequestFacts(request),
      noWindows,
      nowMs,
    );

  it('blocks a permission that is not in it', () => {
    expect(decideFor({ permission_key: 'orders:delete' })).toMatchObject({
      outcome: 'BLOCK',
      reason: 'permission_not_in_catalog',
    });
  });

  it('holds its price against the limit', () => {
    expect(decideFor({ permission_key: 'orders:create' })).toMatchObject({
      outcome: 'BLOCK',
      reason: 'spend_limit_exceeded',
      amountMicroUsd: 250_000,
    });
  });

  it('blocks its unpriced permissions, if the request names no amount', () => {
    expect(decideFor({ permission_key: 'orders:read' })).toMatchObject({
      outcome: 'BLOCK',
      reason: 'amount_missing',
      amountMicroUsd: null,
      charge: null,
    });
  });

  it('charges the amount that was permitted', () => {
    expect(decideFor({ permission_key: 'orders:read', amount: 0.2 })).toMatchObject({
      outcome: 'PERMIT',
      charge: { moneyMicroUsd: 200_000, requests: 1 },
    });
  });
});

describe('a limit on the sum of amounts', () => {
  const constraints = { spend_limits: { per_transaction_usd: 50, daily_usd: 100, monthly_usd: 1_000 } };
  const day = (given: object) => aWindow({ limit: 100_000_000, available: 100_000_000, ...given });
  const month = aWindow({ limit: 1_000_000_000, available: 1_000_000_000 });
  const decideWith = (amount: number, spend = [day({}), month], approval: PresentedApproval = 'none') =>
    decideAt({ constraints, request: { amountMicroUsd: usd(amount), approval }, quota: { spend } });

  it('is met where every window has the money', () => {
    expect(decideWith(30)).toMatchObject({
      outcome: 'PERMIT',
      evaluated: ['passport', 'trust_level', 'issuer', 'permission', 'spend_limit'],
      charge: { moneyMicroUsd: 30_000_000, requests: 1 },
    });
  });

  it.each([
    [30, 'PERMIT'],
    [30.000001, 'BLOCK'],
  ])('is counted to the millionth of a dollar: %d of 30 is %s', (amount, outcome) => {
    const spend = [day({ available: 30_000_000, used: 70_000_000, isFinal: true }), month];
    expect(decideWith(amount, spend).outcome).toBe(outcome);
  });

  it('says how it was missed, and until when', () => {
    const spend = [day({ available: 5_000_000, used: 95_000_000, isFinal: true }), month];
    expect(decideWith(30, spend)).toMatchObject({
      outcome: 'BLOCK',
      reason: 'spend_limit_exceeded',
      charge: null,
      unknown: null,
      limitMiss: {
        unit: 'micro_usd',
        limit: 100_000_000,
        used: 95_000_000,
        requested: 30_000_000,
        resetAtMs: nowMs + 60_000,
      },
    });
  });

  it('is not decided where the ledger was not asked', () => {
    expect(decideWith(30, [day({ available: 0 }), month])).toMatchObject({
      outcome: 'BLOCK',
      reason: 'quota_unavailable',
      unknown: 'leases',
      limitMiss: null,
      charge: null,
    });
  });

  it('comes after the limit on one transaction, which needs no ledger', () => {
    expect(decideWith(50.01, [day({ available: 0 }), month])).toMatchObject({
      reason: 'spend_limit_exceeded',
      unknown: null,
      limitMiss: { limit: 50_000_000, used: 0, requested: 50_010_000, resetAtMs: null },
    });
  });

  it('is not checked for a request without money', () => {
    const empty = [day({ available: 0 }), aWindow({ limit: 0, available: 0 })];
    expect(decideWith(0, empty)).toMatchObject({ outcome: 'PERMIT', charge: { moneyMicroUsd: 0 } });
  });

  it('asks nothing where an approval holds the money already, but for the limit on one transaction', () => {
    const empty = [day({ available: 0, isFinal: true }), month];
    expect(decideWith(30, empty, 'approved')).toMatchObject({
      outcome: 'PERMIT',
      amountMicroUsd: 30_000_000,
      charge: { moneyMicroUsd: 0, requests: 1 },
    });
    expect(decideWith(50.01, empty, 'approved').reason).toBe('spend_limit_exceeded');
  });

  it('of the passport counts besides those of the gate', () => {
    const passport = aPassport({ constraints: { spend_limits: { monthly_usd: 20 } } });
    const own = aWindow({ limit: 20_000_000, available: 0, used: 20_000_000, isFinal: true });
    const request = { amountMicroUsd: usd(10) };
    expect(decideAt({ passport, request, quota: { spend: [own] } })).toMatchObject({
      reason: 'spend_limit_exceeded',
      limitMiss: { limit: 20_000_000 },
    });
  });

  it('is never passed over where the view lacks a window', () => {
    expect(() => decideWith(1, [day({})])).toThrow('the view lists every limit on money');
  });
});
