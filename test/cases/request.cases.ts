import { atL1, block, type CaseData, permit } from './decision-case.ts';

const withDomain = [...atL1, 'domain_allowlist'] as const;
const withSpend = [...atL1, 'spend_limit'] as const;
const order = { permission_key: 'orders:create' };

/** What is asked for: the permission, where it goes, what it costs. */
export const requestCases: readonly CaseData[] = [
  {
    name: 'blocks a request that names no permission',
    request: {},
    want: { ...block('permission_missing', ...atL1), retryable: false },
  },
  {
    name: 'blocks a permission that the passport does not grant',
    request: { permission_key: 'orders:delete' },
    want: block('permission_not_granted', ...atL1),
  },
  {
    name: 'takes a granted area for every action in it',
    passport: { permissions: ['orders:*'] },
    request: { permission_key: 'orders:delete' },
    want: permit(...atL1),
  },
  {
    name: 'does not take a granted area for another that begins like it',
    passport: { permissions: ['orders:*'] },
    request: { permission_key: 'orders2:delete' },
    want: block('permission_not_granted', ...atL1),
  },
  {
    name: 'does not take a granted action for another that begins like it',
    request: { permission_key: 'orders:created' },
    want: block('permission_not_granted', ...atL1),
  },
  {
    name: 'grants nothing to a passport without permissions',
    passport: { permissions: [] },
    want: block('permission_not_granted', ...atL1),
  },
  { name: 'reads requested_action', request: { requested_action: 'orders:create' }, want: permit(...atL1) },
  { name: 'reads action', request: { action: 'orders:create' }, want: permit(...atL1) },
  {
    name: 'takes two names with one value',
    request: { permission_key: 'orders:create', action: 'orders:create' },
    want: permit(...atL1),
  },

  {
    name: 'takes null for absent',
    request: { permission_key: 'orders:create', action: null, url: null, approval_id: null, gate_id: null },
    want: permit(...atL1),
  },
  {
    name: 'blocks a permission that is null as one that is missing',
    request: { permission_key: null },
    want: block('permission_missing', ...atL1),
  },
  {
    name: 'blocks an amount that is null as one that is missing, where money is limited',
    gate: { constraints: { spend_limits: { per_transaction_usd: 10 } } },
    request: { ...order, amount: null },
    want: block('amount_missing', ...withSpend),
  },

  {
    name: 'blocks an approval that nobody asked for, before it looks at the domain',
    gate: { constraints: { allowed_domains: ['api.example.com'] } },
    request: { ...order, approval_id: `appr_${'0'.repeat(26)}` },
    want: block('approval_mismatch', ...atL1),
  },
  {
    name: 'blocks what is no id of an approval as one that nobody asked for',
    request: { ...order, approval_id: 'appr_1' },
    want: block('approval_mismatch', ...atL1),
  },

  {
    name: 'permits a domain that the gate names',
    gate: { constraints: { allowed_domains: ['api.example.com'] } },
    request: { ...order, domain: 'api.example.com' },
    want: permit(...withDomain),
  },
  {
    name: 'compares domains without case, port and trailing dot',
    gate: { constraints: { allowed_domains: ['API.Example.COM.'] } },
    request: { ...order, domain: 'Api.EXAMPLE.com.:8443' },
    want: permit(...withDomain),
  },
  {
    name: 'compares domains after IDNA',
    gate: { constraints: { allowed_domains: ['*.bücher.example'] } },
    request: { ...order, domain: 'SHOP.xn--bcher-kva.example' },
    want: permit(...withDomain),
  },
  {
    name: 'reads the domain from url',
    gate: { constraints: { allowed_domains: ['api.example.com'] } },
    request: { ...order, url: 'https://api.example.com:8443/orders?x=1' },
    want: permit(...withDomain),
  },
  {
    name: 'is not misled by a user name in url',
    gate: { constraints: { allowed_domains: ['api.example.com'] } },
    request: { ...order, url: 'https://api.example.com@evil.example/' },
    want: block('domain_not_allowed', ...withDomain),
  },
  {
    name: 'blocks a domain that the gate does not name',
    gate: { constraints: { allowed_domains: ['api.example.com'] } },
    request: { ...order, domain: 'example.com' },
    want: { ...block('domain_not_allowed', ...withDomain), retryable: false },
  },
  {
    name: 'does not take a name for those below it',
    gate: { constraints: { allowed_domains: ['example.com'] } },
    request: { ...order, domain: 'api.example.com' },
    want: block('domain_not_allowed', ...withDomain),
  },
  {
    name: 'takes a wildcard for a name right below',
    gate: { constraints: { allowed_domains: ['*.example.com'] } },
    request: { ...order, domain: 'api.example.com' },
    want: permit(...withDomain),
  },
  {
    name: 'takes a wildcard for a name far below',
    gate: { constraints: { allowed_domains: ['*.example.com'] } },
    request: { ...order, domain: 'a.b.c.example.com' },
    want: permit(...withDomain),
  },
  {
    name: 'does not take a wildcard for its own apex',
    gate: { constraints: { allowed_domains: ['*.example.com'] } },
    request: { ...order, domain: 'example.com' },
    want: block('domain_not_allowed', ...withDomain),
  },
  {
    name: 'does not take a wildcard for a name that only ends alike',
    gate: { constraints: { allowed_domains: ['*.example.com'] } },
    request: { ...order, domain: 'badexample.com' },
    want: block('domain_not_allowed', ...withDomain),
  },
  {
    name: 'blocks a request without a domain where domains are listed',
    gate: { constraints: { allowed_domains: ['api.example.com'] } },
    want: block('domain_missing', ...withDomain),
  },
  {
    name: 'allows no domain where the list is empty',
    gate: { constraints: { allowed_domains: [] } },
    request: { ...order, domain: 'api.example.com' },
    want: block('domain_not_allowed', ...withDomain),
  },
  {
    name: 'asks for no domain where none are listed',
    request: { ...order, domain: 'anything.example' },
    want: permit(...atL1),
  },
  {
    name: "blocks a domain that the passport's own list leaves out",
    passport: { constraints: { allowed_domains: ['other.example.com'] } },
    request: { ...order, domain: 'api.example.com' },
    want: block('domain_not_allowed', ...withDomain),
  },
  {
    name: 'blocks a domain that only one of both lists names',
    gate: { constraints: { allowed_domains: ['*.example.com'] } },
    passport: { constraints: { allowed_domains: ['other.example'] } },
    request: { ...order, domain: 'other.example' },
    want: block('domain_not_allowed', ...withDomain),
  },
  {
    name: 'permits a domain that both lists name',
    gate: { constraints: { allowed_domains: ['*.example.com'] } },
    passport: { constraints: { allowed_domains: ['api.example.com'] } },
    request: { ...order, domain: 'api.example.com' },
    want: permit(...withDomain),
  },

  {
    name: 'permits an amount one millionth below the limit',
    gate: { constraints: { spend_limits: { per_transaction_usd: 50 } } },
    request: { ...order, amount: 49.999999 },
    want: permit(...withSpend),
  },
  {
    name: 'permits an amount at the limit',
    gate: { constraints: { spend_limits: { per_transaction_usd: 50 } } },
    request: { ...order, amount: 50 },
    want: permit(...withSpend),
  },
  {
    name: 'blocks an amount one millionth above the limit',
    gate: { constraints: { spend_limits: { per_transaction_usd: 50 } } },
    request: { ...order, amount: 50.000001 },
    want: {
      ...block('spend_limit_exceeded', ...withSpend),
      retryable: false,
      limit: 50,
      requested: 50.000001,
    },
  },
  {
    name: 'permits nothing but free requests at a limit of 0',
    gate: { constraints: { spend_limits: { per_transaction_usd: 0 } } },
    request: { ...order, amount: 0.000001 },
    want: { ...block('spend_limit_exceeded', ...withSpend), limit: 0, requested: 0.000001 },
  },
  {
    name: 'permits a free request at a limit of 0',
    gate: { constraints: { spend_limits: { per_transaction_usd: 0 } } },
    request: { ...order, amount: 0 },
    want: permit(...withSpend),
  },
  {
    name: 'asks nothing of the amount where there is no limit',
    request: { ...order, amount: 1_000_000_000 },
    want: permit(...atL1),
  },
  {
    name: 'takes per and alert_at alone for no limit',
    gate: { constraints: { spend_limits: { per: 'passport', alert_at: 0.5 } } },
    request: { ...order, amount: 1_000_000_000 },
    want: permit(...atL1),
  },
  {
    name: 'reads amount_usd',
    gate: { constraints: { spend_limits: { per_transaction_usd: 50 } } },
    request: { ...order, amount_usd: 51 },
    want: { ...block('spend_limit_exceeded', ...withSpend), limit: 50, requested: 51 },
  },
  {
    name: 'reads estimated_cost_usd',
    gate: { constraints: { spend_limits: { per_transaction_usd: 50 } } },
    request: { ...order, estimated_cost_usd: 51 },
    want: { ...block('spend_limit_exceeded', ...withSpend), limit: 50, requested: 51 },
  },
  {
    name: "blocks at the passport's own limit where it is lower",
    gate: { constraints: { spend_limits: { per_transaction_usd: 50 } } },
    passport: { constraints: { spend_limits: { per_transaction_usd: 20 } } },
    request: { ...order, amount: 20.01 },
    want: { ...block('spend_limit_exceeded', ...withSpend), limit: 20, requested: 20.01 },
  },
  {
    name: "blocks at the gate's limit where it is lower",
    gate: { constraints: { spend_limits: { per_transaction_usd: 10 } } },
    passport: { constraints: { spend_limits: { per_transaction_usd: 20 } } },
    request: { ...order, amount: 15 },
    want: { ...block('spend_limit_exceeded', ...withSpend), limit: 10, requested: 15 },
  },
  {
    name: "blocks at the passport's own limit where the gate has none",
    passport: { constraints: { spend_limits: { per_transaction_usd: 20 } } },
    request: { ...order, amount: 21 },
    want: { ...block('spend_limit_exceeded', ...withSpend), limit: 20, requested: 21 },
  },
  {
    name: 'permits dollars by name',
    gate: { constraints: { spend_limits: { per_transaction_usd: 50 } } },
    request: { ...order, amount: 5, currency: 'USD' },
    want: permit(...withSpend),
  },
  {
    name: 'blocks another currency',
    gate: { constraints: { spend_limits: { per_transaction_usd: 50 } } },
    request: { ...order, amount: 5, currency: 'EUR' },
    want: { ...block('currency_unsupported', ...withSpend), retryable: false },
  },
  {
    name: 'blocks another currency where there is no limit',
    request: { ...order, amount: 5, currency: 'usd' },
    want: block('currency_unsupported', ...withSpend),
  },
];
