import { atL1, block, type CaseData, permit } from './decision-case.ts';

const perCall = (cents: number) => ({ model: 'per_call', price_cents: cents, currency: 'USD' });
const catalogOf = (...permissions: readonly object[]) => ({ permissions });
const priced = catalogOf({ key: 'orders:create', pricing: perCall(25) }, { key: 'orders:read' });

/**
 * What a published catalog does to a decision: it lists the permissions that there are, and prices those that
 * have a price per call.
 */
export const catalogCases: readonly CaseData[] = [
  {
    name: 'permits what the catalog offers',
    gate: { catalog: priced },
    want: permit(...atL1),
  },
  {
    name: 'blocks what is granted, but not in the catalog',
    gate: { catalog: priced },
    passport: { permissions: ['orders:create', 'orders:delete'] },
    request: { permission_key: 'orders:delete' },
    want: block('permission_not_in_catalog', ...atL1),
  },
  {
    name: 'permits a granted area as far as the catalog offers it',
    gate: { catalog: priced },
    passport: { permissions: ['orders:*'] },
    request: { permission_key: 'orders:read' },
    want: permit(...atL1),
  },
  {
    name: 'blocks the rest of a granted area',
    gate: { catalog: priced },
    passport: { permissions: ['orders:*'] },
    request: { permission_key: 'orders:delete' },
    want: block('permission_not_in_catalog', ...atL1),
  },
  {
    name: 'says first that a permission is not granted',
    gate: { catalog: priced },
    request: { permission_key: 'orders:delete' },
    want: block('permission_not_granted', ...atL1),
  },
  {
    name: 'blocks everything at a gate with an empty catalog',
    gate: { catalog: catalogOf() },
    want: block('permission_not_in_catalog', ...atL1),
  },
  {
    name: 'takes the price per call for an amount, and blocks it above the limit',
    gate: { catalog: priced, constraints: { spend_limits: { per_transaction_usd: 0.24 } } },
    want: {
      ...block('spend_limit_exceeded', ...atL1, 'spend_limit'),
      limit: 0.24,
      requested: 0.25,
    },
  },
  {
    name: 'takes the price per call for an amount, and permits it at the limit',
    gate: { catalog: priced, constraints: { spend_limits: { per_transaction_usd: 0.25 } } },
    want: permit(...atL1, 'spend_limit'),
  },
  {
    name: "holds the price per call against the passport's own limit",
    gate: { catalog: priced },
    passport: { constraints: { spend_limits: { per_transaction_usd: 0.1 } } },
    want: {
      ...block('spend_limit_exceeded', ...atL1, 'spend_limit'),
      limit: 0.1,
      requested: 0.25,
    },
  },
  {
    name: 'lets the amount of the request count before the price',
    gate: { catalog: priced, constraints: { spend_limits: { per_transaction_usd: 0.2 } } },
    request: { permission_key: 'orders:create', amount: 0.2 },
    want: permit(...atL1, 'spend_limit'),
  },
  {
    name: 'has no amount where the catalog has no price',
    gate: { catalog: priced, constraints: { spend_limits: { per_transaction_usd: 0 } } },
    passport: { permissions: ['orders:read'] },
    request: { permission_key: 'orders:read' },
    want: block('amount_missing', ...atL1, 'spend_limit'),
  },
  {
    name: 'has no amount where the price is not per call',
    gate: {
      catalog: catalogOf({ key: 'orders:create', pricing: { ...perCall(25), model: 'per_minute' } }),
      constraints: { spend_limits: { per_transaction_usd: 0 } },
    },
    want: block('amount_missing', ...atL1, 'spend_limit'),
  },
  {
    name: 'has no amount where the price is in another currency',
    gate: {
      catalog: catalogOf({ key: 'orders:create', pricing: { ...perCall(25), currency: 'EUR' } }),
      constraints: { spend_limits: { per_transaction_usd: 0 } },
    },
    want: block('amount_missing', ...atL1, 'spend_limit'),
  },
  {
    name: 'blocks another currency also where the price is in dollars',
    gate: { catalog: priced },
    request: { permission_key: 'orders:create', currency: 'EUR' },
    want: block('currency_unsupported', ...atL1, 'spend_limit'),
  },
];
