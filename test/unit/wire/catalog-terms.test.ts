import { describe, expect, it } from 'vitest';
import { catalogTerms } from '../../../shared/model/catalog.ts';
import {
  CatalogPublication,
  parseCatalogPublication,
  parseCatalogTerms,
  renderCatalogTerms,
} from '../../../shared/wire/api/catalog.ts';
import { shapeReader } from '../../../shared/wire/api/shape.ts';

const read = shapeReader(CatalogPublication);
const termsOf = (...permissions: readonly object[]) =>
  catalogTerms(parseCatalogPublication(read({ permissions })).permissions);

describe('the terms of a catalog', () => {
  const terms = termsOf(
    { key: 'orders:create', pricing: { model: 'per_call', price_cents: 25 }, requires_approval: true },
    { key: 'orders:read', requires_approval: false },
    { key: 'orders:stream', pricing: { model: 'per_minute', price_cents: 1 } },
    { key: 'orders:delete', pricing: { model: 'per_call', price_cents: 1, currency: 'EUR' } },
    { key: 'orders:list', pricing: { model: 'free' } },
    { key: 'orders:watch', pricing: { model: 'free', price_cents: 0, currency: 'USD' } },
  );

  it('are the price per call in USD, and whether an approval is needed', () => {
    expect([...terms]).toEqual([
      ['orders:create', { priceMicroUsd: 250_000, requiresApproval: true }],
      ['orders:read', { priceMicroUsd: null, requiresApproval: false }],
      ['orders:stream', { priceMicroUsd: null, requiresApproval: false }],
      ['orders:delete', { priceMicroUsd: null, requiresApproval: false }],
      ['orders:list', { priceMicroUsd: 0, requiresApproval: false }],
      ['orders:watch', { priceMicroUsd: 0, requiresApproval: false }],
    ]);
  });

  it('are read as they were written', () => {
    expect(parseCatalogTerms(renderCatalogTerms(terms))).toEqual(terms);
    expect(parseCatalogTerms(renderCatalogTerms(termsOf()))).toEqual(new Map());
  });

  it.each([
    ['a price below 0', { prices: { 'orders:create': -1 }, approvals: [] }],
    ['a key that is no permission', { prices: { orders: 1 }, approvals: [] }],
    ['an approval of what is not offered', { prices: { 'orders:create': 1 }, approvals: ['orders:read'] }],
    ['an approval of no permission', { prices: {}, approvals: ['toString'] }],
  ])('are not read with %s', (_what, written) => {
    expect(() => parseCatalogTerms(written)).toThrow(TypeError);
  });
});
