import { describe, expect, it } from 'vitest';
import { countedAmount } from '../../../shared/decision/check-spend.ts';
import { compileGate } from '../../../shared/decision/compile-gate.ts';
import { decide } from '../../../shared/decision/decide.ts';
import { noWindows } from '../../../shared/decision/facts.ts';
import type { CatalogPrices } from '../../../shared/model/catalog.ts';
import type { MicroUsd } from '../../../shared/model/money.ts';
import { parseRequestFacts } from '../../../shared/wire/check.ts';
import { aGate, aPassport, aStanding, nowMs, permissionKey } from './samples.ts';

const priced: CatalogPrices = new Map<ReturnType<typeof permissionKey>, MicroUsd | null>([
  [permissionKey('orders:create'), 250_000 as MicroUsd],
  [permissionKey('orders:read'), null],
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

  it('permits what is in it for nothing, and charges nothing', () => {
    expect(decideFor({ permission_key: 'orders:read' })).toMatchObject({
      outcome: 'PERMIT',
      amountMicroUsd: null,
      charge: { moneyMicroUsd: 0 },
    });
  });

  it('charges the amount that was permitted', () => {
    expect(decideFor({ permission_key: 'orders:read', amount: 0.2 })).toMatchObject({
      outcome: 'PERMIT',
      charge: { moneyMicroUsd: 200_000 },
    });
  });
});
