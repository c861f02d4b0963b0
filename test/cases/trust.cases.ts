import { atL1, atL2, block, type CaseData, foreignIssuer, ownIssuer, permit } from './decision-case.ts';

const atTrust = ['passport', 'trust_level'] as const;
const atFreshness = ['passport', 'trust_level', 'freshness'] as const;

/** How much a gate demands of the passport's tier, of the age of what is known, and of the issuer. */
export const trustCases: readonly CaseData[] = [
  {
    name: 'permits a tier above the level of the gate',
    gate: { trust_level: 'L2' },
    passport: { trust_tier: 'L3' },
    want: permit(...atL2),
  },
  {
    name: 'permits a tier equal to the level of the gate',
    gate: { trust_level: 'L3' },
    passport: { trust_tier: 'L3' },
    want: permit(...atL2),
  },
  {
    name: 'blocks a tier below the level of the gate',
    gate: { trust_level: 'L2' },
    passport: { trust_tier: 'L1' },
    want: { ...block('trust_level_insufficient', ...atTrust), retryable: false },
  },
  {
    name: 'blocks L2 at L3',
    gate: { trust_level: 'L3' },
    passport: { trust_tier: 'L2' },
    want: block('trust_level_insufficient', ...atTrust),
  },
  {
    name: 'counts the tier of an issuer that is neither own nor named as L1',
    gate: { trust_level: 'L2', constraints: { trusted_issuers: ['*'] } },
    passport: { issued_by: 'foreign', trust_tier: 'L3' },
    want: block('trust_level_insufficient', ...atTrust),
  },
  {
    name: 'lets any issuer in at L1 where the gate trusts all',
    gate: { constraints: { trusted_issuers: ['*'] } },
    passport: { issued_by: 'foreign', trust_tier: 'L3' },
    want: permit(...atL1),
  },
  {
    name: 'counts the tier of a named issuer in full',
    gate: { trust_level: 'L3', constraints: { trusted_issuers: [foreignIssuer] } },
    passport: { issued_by: 'foreign', trust_tier: 'L3' },
    want: permit(...atL2),
  },
  {
    name: 'counts the tier of an own issuer in full where the gate trusts all',
    gate: { trust_level: 'L3', constraints: { trusted_issuers: ['*'] } },
    passport: { trust_tier: 'L3' },
    want: permit(...atL2),
  },

  {
    name: 'decides at L1 on a state of any age',
    stateAgeMs: 86_400_000,
    want: permit(...atL1),
  },
  {
    name: 'decides at L2 on a state that is 60 s old',
    gate: { trust_level: 'L2' },
    passport: { trust_tier: 'L2' },
    stateAgeMs: 60_000,
    want: permit(...atL2),
  },
  {
    name: 'blocks at L2 on a state that is older than 60 s',
    gate: { trust_level: 'L2' },
    passport: { trust_tier: 'L2' },
    stateAgeMs: 60_001,
    want: { ...block('state_stale', ...atFreshness), retryable: true },
  },
  {
    name: 'decides at L3 on a state that is 5 s old',
    gate: { trust_level: 'L3' },
    passport: { trust_tier: 'L3' },
    stateAgeMs: 5_000,
    want: permit(...atL2),
  },
  {
    name: 'blocks at L3 on a state that is older than 5 s',
    gate: { trust_level: 'L3' },
    passport: { trust_tier: 'L3' },
    stateAgeMs: 5_001,
    want: block('state_stale', ...atFreshness),
  },

  {
    name: 'blocks an issuer of another account where the gate names none',
    passport: { issued_by: 'foreign' },
    want: { ...block('issuer_untrusted', 'passport', 'trust_level', 'issuer'), retryable: false },
  },
  {
    name: 'blocks an issuer of the own account that the list of the gate leaves out',
    gate: { constraints: { trusted_issuers: [foreignIssuer] } },
    want: block('issuer_untrusted', 'passport', 'trust_level', 'issuer'),
  },
  {
    name: 'permits an issuer that the gate names',
    gate: { constraints: { trusted_issuers: [ownIssuer, foreignIssuer] } },
    passport: { issued_by: 'foreign' },
    want: permit(...atL1),
  },
  {
    name: 'permits an issuer of the own account where the list says own',
    gate: { trust_level: 'L3', constraints: { trusted_issuers: ['own', foreignIssuer] } },
    passport: { trust_tier: 'L3' },
    want: permit(...atL2),
  },
  {
    name: 'lets no other issuer in by own',
    gate: { constraints: { trusted_issuers: ['own'] } },
    passport: { issued_by: 'foreign' },
    want: block('issuer_untrusted', 'passport', 'trust_level', 'issuer'),
  },
  {
    name: 'permits an issuer of the own account where there is no gate',
    gate: null,
    want: permit('passport', 'issuer', 'permission'),
  },
  {
    name: 'blocks an issuer of another account where there is no gate',
    gate: null,
    passport: { issued_by: 'foreign' },
    want: block('issuer_untrusted', 'passport', 'issuer'),
  },
  {
    name: 'lets nobody in where the list is empty',
    gate: { constraints: { trusted_issuers: [] } },
    want: block('issuer_untrusted', 'passport', 'trust_level', 'issuer'),
  },
  {
    name: 'blocks a suspended issuer of the own account',
    circumstances: ['issuer suspended'],
    want: block('issuer_untrusted', 'passport', 'trust_level', 'issuer'),
  },
  {
    name: 'blocks a suspended issuer where the gate trusts all',
    gate: { constraints: { trusted_issuers: ['*'] } },
    circumstances: ['issuer suspended'],
    want: block('issuer_untrusted', 'passport', 'trust_level', 'issuer'),
  },
];
