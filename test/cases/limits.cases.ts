import { atL1, block, type CaseData, type DecisionCase, permit } from './decision-case.ts';

const order = { permission_key: 'orders:create' };
const paying = (amount: number) => ({ ...order, amount });
const withSpend = [...atL1, 'spend_limit'] as const;
const withRate = [...atL1, 'rate_limit'] as const;
const withBoth = [...withSpend, 'rate_limit'] as const;

const rates = (limits: object) => ({ constraints: { rate_limits: limits } });
const spends = (limits: object) => ({ constraints: { spend_limits: limits } });
/** So often the same request came before. */
const times = (count: number) => Array.from({ length: count }, () => ({}));

/** Two orders at 25 cents are the whole day. */
const pricedGate: Partial<NonNullable<DecisionCase['gate']>> = {
  ...spends({ daily_usd: 0.5 }),
  catalog: {
    permissions: [{ key: 'orders:create', pricing: { model: 'per_call', price_cents: 25, currency: 'USD' } }],
  },
};

/** How often requests come. Windows are hours and days, so that none ends while a case is played. */
const rateCases: readonly CaseData[] = [
  {
    name: 'permits the last request that the day has',
    gate: rates({ requests_per_day: 2 }),
    earlier: times(1),
    want: permit(...withRate),
  },
  {
    name: 'blocks the first request that the day does not have',
    gate: rates({ requests_per_day: 2 }),
    earlier: times(2),
    want: { ...block('rate_limit_exceeded', ...withRate), limit: 2, used: 2, requested: 1, resets: 'day' },
  },
  {
    name: 'blocks the first request that the hour does not have',
    gate: rates({ requests_per_hour: 1, requests_per_day: 100 }),
    earlier: times(1),
    want: { ...block('rate_limit_exceeded', ...withRate), limit: 1, used: 1, requested: 1, resets: 'hour' },
  },
  {
    name: 'names the window that stays closed the longest',
    gate: rates({ requests_per_hour: 1, requests_per_day: 1 }),
    earlier: times(1),
    want: { ...block('rate_limit_exceeded', ...withRate), limit: 1, used: 1, requested: 1, resets: 'day' },
  },
  {
    name: 'lets nothing pass a rate limit of 0, and does not ask to wait',
    gate: rates({ requests_per_minute: 0 }),
    want: { ...block('rate_limit_exceeded', ...withRate), limit: 0, requested: 1 },
  },
  {
    name: 'counts all passports at the gate together',
    gate: rates({ requests_per_day: 1 }),
    earlier: [{ by: 'another passport' }],
    want: { ...block('rate_limit_exceeded', ...withRate), limit: 1, used: 1, requested: 1, resets: 'day' },
  },
  {
    name: 'counts each passport for itself where the rate limit says so',
    gate: rates({ requests_per_day: 1, per: 'passport' }),
    earlier: [{ by: 'another passport' }],
    want: permit(...withRate),
  },
  {
    name: 'blocks the passport that has used its own part of the gate',
    gate: rates({ requests_per_day: 1, per: 'passport' }),
    earlier: times(1),
    want: { ...block('rate_limit_exceeded', ...withRate), limit: 1, used: 1, requested: 1, resets: 'day' },
  },
  {
    name: 'counts for a gate nothing of what goes on at another',
    gate: rates({ requests_per_day: 1, per: 'passport' }),
    earlier: [{ at: 'another gate' }],
    want: permit(...withRate),
  },
  {
    name: "counts a passport's own limit at all gates together",
    passport: rates({ requests_per_day: 2 }),
    earlier: [{ at: 'another gate' }, { at: 'no gate' }],
    want: { ...block('rate_limit_exceeded', ...withRate), limit: 2, used: 2, requested: 1, resets: 'day' },
  },
  {
    name: "counts a passport's own limit where there is no gate",
    gate: null,
    passport: rates({ requests_per_day: 1 }),
    earlier: times(1),
    want: {
      ...block('rate_limit_exceeded', 'passport', 'issuer', 'permission', 'rate_limit'),
      limit: 1,
      used: 1,
      requested: 1,
      resets: 'day',
    },
  },
  {
    name: "counts nothing of another passport for a passport's own limit",
    passport: rates({ requests_per_day: 1 }),
    earlier: [{ by: 'another passport' }],
    want: permit(...withRate),
  },
  {
    name: 'counts no request that was blocked',
    gate: { constraints: { rate_limits: { requests_per_day: 1 }, spend_limits: { per_transaction_usd: 5 } } },
    request: paying(5),
    earlier: [{ request: paying(6), decision: 'BLOCK' }],
    want: permit(...withBoth),
  },
];

const spendCases: readonly CaseData[] = [
  {
    name: 'permits the last cent that the day has',
    gate: spends({ daily_usd: 10 }),
    request: paying(4),
    earlier: [{ request: paying(6) }],
    want: permit(...withSpend),
  },
  {
    name: 'blocks a millionth of a dollar more than the day has',
    gate: spends({ daily_usd: 10 }),
    request: paying(4.000001),
    earlier: [{ request: paying(6) }],
    want: {
      ...block('spend_limit_exceeded', ...withSpend),
      limit: 10,
      used: 6,
      requested: 4.000001,
      resets: 'day',
    },
  },
  {
    name: 'adds amounts without the error of binary fractions',
    gate: spends({ daily_usd: 0.3 }),
    request: paying(0.1),
    earlier: [{ request: paying(0.1) }, { request: paying(0.1) }],
    want: permit(...withSpend),
  },
  {
    name: 'blocks what the month does not have',
    gate: spends({ daily_usd: 100, monthly_usd: 10 }),
    request: paying(5),
    earlier: [{ request: paying(6) }],
    want: {
      ...block('spend_limit_exceeded', ...withSpend),
      limit: 10,
      used: 6,
      requested: 5,
      resets: 'month',
    },
  },
  {
    name: 'asks nobody to wait for an amount that no day has',
    gate: spends({ daily_usd: 10 }),
    request: paying(11),
    want: { ...block('spend_limit_exceeded', ...withSpend), limit: 10, requested: 11 },
  },
  {
    name: 'lets no money pass a limit of 0, and what costs nothing does',
    gate: spends({ daily_usd: 0 }),
    request: paying(0.01),
    earlier: [{ request: paying(0) }],
    want: { ...block('spend_limit_exceeded', ...withSpend), limit: 0, requested: 0.01 },
  },
  {
    name: 'permits what costs nothing when the day has been spent',
    gate: spends({ daily_usd: 6 }),
    request: paying(0),
    earlier: [{ request: paying(6) }],
    want: permit(...withSpend),
  },
  {
    name: 'counts the amounts of all passports at the gate together',
    gate: spends({ daily_usd: 10 }),
    request: paying(6),
    earlier: [{ by: 'another passport' }],
    want: { ...block('spend_limit_exceeded', ...withSpend), limit: 10, used: 6, requested: 6, resets: 'day' },
  },
  {
    name: 'counts the amounts of each passport for itself where the limit says so',
    gate: spends({ daily_usd: 10, per: 'passport' }),
    request: paying(6),
    earlier: [{ by: 'another passport' }],
    want: permit(...withSpend),
  },
  {
    name: "counts a passport's own budget at all gates together",
    passport: spends({ monthly_usd: 10 }),
    request: paying(6),
    earlier: [{ at: 'another gate' }],
    want: {
      ...block('spend_limit_exceeded', ...withSpend),
      limit: 10,
      used: 6,
      requested: 6,
      resets: 'month',
    },
  },
  {
    name: "applies the gate's limit and the passport's own",
    gate: spends({ daily_usd: 100 }),
    passport: spends({ daily_usd: 10 }),
    request: paying(6),
    earlier: times(1),
    want: { ...block('spend_limit_exceeded', ...withSpend), limit: 10, used: 6, requested: 6, resets: 'day' },
  },
  {
    name: 'spends nothing on a request that was blocked',
    gate: spends({ per_transaction_usd: 8, daily_usd: 10 }),
    request: paying(8),
    earlier: [{ request: paying(9), decision: 'BLOCK' }],
    want: permit(...withSpend),
  },
  {
    name: 'spends the price per call where the request names no amount',
    gate: pricedGate,
    earlier: times(2),
    want: {
      ...block('spend_limit_exceeded', ...withSpend),
      limit: 0.5,
      used: 0.5,
      requested: 0.25,
      resets: 'day',
    },
  },
  {
    name: 'says of two limits on money the one on the single transaction first',
    gate: spends({ per_transaction_usd: 5, daily_usd: 6 }),
    request: paying(5.5),
    earlier: [{ request: paying(5) }],
    want: { ...block('spend_limit_exceeded', ...withSpend), limit: 5, requested: 5.5 },
  },
  {
    name: 'says that the money is spent before it says that requests come too often',
    gate: { constraints: { rate_limits: { requests_per_day: 1 }, spend_limits: { daily_usd: 6 } } },
    request: paying(6),
    earlier: times(1),
    want: { ...block('spend_limit_exceeded', ...withSpend), limit: 6, used: 6, requested: 6, resets: 'day' },
  },
  {
    name: 'permits a request with an idempotency key, and counts what came without one',
    gate: { constraints: { rate_limits: { requests_per_day: 2 }, spend_limits: { daily_usd: 12 } } },
    request: { ...paying(6), idempotency_key: 'order-7' },
    earlier: [{ request: paying(6) }],
    want: permit(...withBoth),
  },
];

/** A misspelt amount must not open a rule about money (contract §4 and §5). */
const unpricedCases: readonly CaseData[] = [
  {
    name: 'blocks a misspelt amount where money is limited',
    gate: spends({ daily_usd: 100 }),
    request: { ...order, ammount: 5_000 },
    want: { ...block('amount_missing', ...withSpend), retryable: false },
  },
  {
    name: 'blocks a missing amount where one transaction is limited',
    gate: spends({ per_transaction_usd: 100 }),
    want: block('amount_missing', ...withSpend),
  },
  {
    name: 'blocks a missing amount where an approval depends on it',
    gate: { constraints: { approvals: { above_usd: 100 } } },
    want: block('amount_missing', ...atL1, 'approval'),
  },
  {
    name: 'blocks a missing amount before it asks a person for the permission',
    gate: { constraints: { approvals: { above_usd: 100, permissions: ['orders:create'] } } },
    want: block('amount_missing', ...atL1, 'approval'),
  },
  {
    name: 'needs no amount for an approval that depends on the permission alone',
    gate: { constraints: { approvals: { permissions: ['orders:delete'] } } },
    want: permit(...atL1, 'approval'),
  },
  {
    name: "blocks a missing amount by the passport's own limit, also without a gate",
    gate: null,
    passport: spends({ monthly_usd: 10 }),
    want: block('amount_missing', 'passport', 'issuer', 'permission', 'spend_limit'),
  },
  {
    name: 'counts a missing amount as nothing where the gate says so',
    gate: spends({ daily_usd: 10, per_transaction_usd: 1, unpriced: 'permit' }),
    want: permit(...withSpend),
  },
  {
    name: 'asks nobody about a missing amount where the gate says so',
    gate: { constraints: { approvals: { above_usd: 1 }, spend_limits: { unpriced: 'permit' } } },
    want: permit(...atL1, 'approval'),
  },
  {
    name: "does not let the gate open the passport's own limit",
    gate: spends({ daily_usd: 10, unpriced: 'permit' }),
    passport: spends({ daily_usd: 10 }),
    want: block('amount_missing', ...withSpend),
  },
  {
    name: 'takes an amount of nothing for an amount',
    gate: spends({ daily_usd: 0 }),
    request: paying(0),
    want: permit(...withSpend),
  },
  {
    name: 'counts an amount without the noise of binary fractions',
    gate: spends({ daily_usd: 3.3 }),
    request: paying(3 * 1.1),
    want: permit(...withSpend),
  },
];

/** What a sidecar answers that cannot reach the ledger and holds no units. */
const awayCases: readonly CaseData[] = [
  {
    name: 'permits no money when the ledger cannot be asked',
    gate: { constraints: { rate_limits: { requests_per_day: 5 }, spend_limits: { daily_usd: 6 } } },
    request: paying(6),
    circumstances: ['control plane away'],
    want: block('quota_unavailable', ...withSpend),
  },
  {
    name: 'permits no request when the ledger cannot be asked',
    gate: rates({ requests_per_day: 5 }),
    circumstances: ['control plane away'],
    want: block('quota_unavailable', ...withRate),
  },
  {
    name: 'needs no ledger for a request that draws on no limit',
    gate: spends({ daily_usd: 6 }),
    request: paying(0),
    circumstances: ['control plane away'],
    want: permit(...withSpend),
  },
  {
    name: 'needs no ledger to block what no window can hold',
    gate: rates({ requests_per_day: 0 }),
    circumstances: ['control plane away'],
    want: { ...block('rate_limit_exceeded', ...withRate), limit: 0, requested: 1 },
  },
  {
    name: 'needs no ledger to block what an earlier check blocks',
    gate: { constraints: { rate_limits: { requests_per_day: 5 }, allowed_domains: ['api.example.com'] } },
    circumstances: ['control plane away'],
    want: block('domain_missing', ...atL1, 'domain_allowlist'),
  },
];

/** Limits on calendar windows: what came before counts, exactly. */
export const limitCases: readonly CaseData[] = [...rateCases, ...spendCases, ...unpricedCases, ...awayCases];
