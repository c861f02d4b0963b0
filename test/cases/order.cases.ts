import { atL1, atL2, block, type CaseData, permit } from './decision-case.ts';

const everythingAtOnce = {
  trust_level: 'L3',
  constraints: {
    trusted_issuers: [],
    allowed_domains: ['api.example.com'],
    spend_limits: { per_transaction_usd: 1 },
  },
} as const;
const everythingWrong = {
  permission_key: 'orders:delete',
  domain: 'evil.example',
  amount: 2,
  currency: 'EUR',
};

/**
 * The order of the checks, by requests with which several things are wrong, and what `/enforce` without a
 * gate leaves out.
 */
export const orderCases: readonly CaseData[] = [
  {
    name: 'looks at the passport first',
    gate: everythingAtOnce,
    passport: { trust_tier: 'L1' },
    circumstances: ['passport revoked'],
    stateAgeMs: 9_000,
    request: everythingWrong,
    want: block('passport_revoked', 'passport'),
  },
  {
    name: 'then at the trust level',
    gate: everythingAtOnce,
    passport: { trust_tier: 'L1' },
    stateAgeMs: 9_000,
    request: everythingWrong,
    want: block('trust_level_insufficient', 'passport', 'trust_level'),
  },
  {
    name: 'then at the freshness of the state',
    gate: everythingAtOnce,
    passport: { trust_tier: 'L3' },
    stateAgeMs: 9_000,
    request: everythingWrong,
    want: block('state_stale', 'passport', 'trust_level', 'freshness'),
  },
  {
    name: 'then at the issuer',
    gate: everythingAtOnce,
    passport: { trust_tier: 'L3' },
    request: everythingWrong,
    want: block('issuer_untrusted', 'passport', 'trust_level', 'freshness', 'issuer'),
  },
  {
    name: 'then at the permission',
    gate: { constraints: { allowed_domains: ['api.example.com'], spend_limits: { per_transaction_usd: 1 } } },
    request: everythingWrong,
    want: block('permission_not_granted', ...atL1),
  },
  {
    name: 'then at the domain',
    gate: { constraints: { allowed_domains: ['api.example.com'], spend_limits: { per_transaction_usd: 1 } } },
    request: { ...everythingWrong, permission_key: 'orders:create' },
    want: block('domain_not_allowed', ...atL1, 'domain_allowlist'),
  },
  {
    name: 'then at the money',
    gate: { constraints: { allowed_domains: ['api.example.com'], spend_limits: { per_transaction_usd: 1 } } },
    request: { ...everythingWrong, permission_key: 'orders:create', domain: 'api.example.com' },
    want: block('currency_unsupported', ...atL1, 'domain_allowlist', 'spend_limit'),
  },
  {
    name: 'lists every check in its order when all are passed',
    gate: {
      trust_level: 'L2',
      constraints: { allowed_domains: ['api.example.com'], spend_limits: { per_transaction_usd: 2 } },
    },
    passport: { trust_tier: 'L2' },
    request: { amount: 2, domain: 'api.example.com', permission_key: 'orders:create' },
    want: permit(...atL2, 'domain_allowlist', 'spend_limit'),
  },

  {
    name: 'without a gate: permits the passport alone',
    gate: null,
    request: {},
    want: permit('passport', 'issuer'),
  },
  {
    name: 'without a gate: needs no permission',
    gate: null,
    request: {},
    want: permit('passport', 'issuer'),
  },
  {
    name: 'without a gate: blocks a suspended issuer',
    gate: null,
    circumstances: ['issuer suspended'],
    request: {},
    want: block('issuer_untrusted', 'passport', 'issuer'),
  },
  {
    name: 'without a gate: decides on a state of any age',
    gate: null,
    stateAgeMs: 86_400_000,
    request: {},
    want: permit('passport', 'issuer'),
  },
  {
    name: 'without a gate: checks a permission that is named',
    gate: null,
    request: { permission_key: 'orders:delete' },
    want: block('permission_not_granted', 'passport', 'issuer', 'permission'),
  },
  {
    name: 'without a gate: permits a permission that is granted',
    gate: null,
    want: permit('passport', 'issuer', 'permission'),
  },
  {
    name: "without a gate: applies the passport's own list of domains",
    gate: null,
    passport: { constraints: { allowed_domains: ['api.example.com'] } },
    request: {},
    want: block('domain_missing', 'passport', 'issuer', 'domain_allowlist'),
  },
  {
    name: "without a gate: applies the passport's own limit",
    gate: null,
    passport: { constraints: { spend_limits: { per_transaction_usd: 5 } } },
    request: { amount: 6 },
    want: {
      ...block('spend_limit_exceeded', 'passport', 'issuer', 'spend_limit'),
      limit: 5,
      requested: 6,
    },
  },
  {
    name: "without a gate: blocks a passport that is not of the caller's world",
    gate: null,
    mode: 'test',
    request: {},
    want: block('mode_mismatch', 'passport'),
  },
  {
    name: 'without a gate: blocks a token that does not verify',
    gate: null,
    forgery: 'one bit of the signature',
    request: {},
    want: block('passport_signature_invalid', 'passport'),
  },
];
