import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compileDomains } from '../../shared/decision/compile-domains.ts';
import { type CompiledPolicy, compileGate, noGate } from '../../shared/decision/compile-gate.ts';
import { decide } from '../../shared/decision/decide.ts';
import {
  noWindows,
  type PassportFacts,
  type PassportStanding,
  type RequestFacts,
  type VerifiedPassport,
} from '../../shared/decision/facts.ts';
import type { CatalogPrices } from '../../shared/model/catalog.ts';
import type { CheckName, DecisionReason } from '../../shared/model/decision.ts';
import { makeId } from '../../shared/model/ids.ts';
import type { MicroUsd } from '../../shared/model/money.ts';
import type { PermissionKey } from '../../shared/model/permission.ts';
import type { UnixMillis, UnixSeconds } from '../../shared/model/time.ts';
import type { TrustTier } from '../../shared/model/trust-tier.ts';
import { noConstraints } from '../../shared/wire/constraints.ts';
import { runs } from '../support/runs.ts';

const nowS = 1_800_000_000;
const nowMs = (nowS * 1_000) as UnixMillis;
const id = <P extends Parameters<typeof makeId>[0]>(prefix: P, byte: number) =>
  makeId(prefix, nowMs, new Uint8Array(10).fill(byte));

const accounts = [id('acct', 1), id('acct', 2)] as const;
const issuers = [id('iss', 1), id('iss', 2)] as const;

/** Everything that a decision depends on, in words of the decisions page; few values each, so that they often meet. */
interface Situation {
  readonly gate: {
    readonly level: TrustTier;
    readonly trusted: readonly number[] | 'any' | null;
    readonly domains: readonly string[] | null;
    readonly limit: number | null;
    readonly catalog: readonly (readonly [string, number | null])[] | null;
  } | null;
  readonly mode: 'live' | 'test';
  readonly refusal: 'passport_malformed' | 'passport_signature_invalid' | 'passport_unknown_key' | null;
  readonly passport: {
    readonly account: 0 | 1;
    readonly issuer: 0 | 1;
    readonly mode: 'live' | 'test';
    readonly tier: TrustTier;
    readonly permissions: readonly string[];
    readonly startsInS: number;
    readonly endsInS: number | null;
    readonly domains: readonly string[] | null;
    readonly limit: number | null;
  };
  readonly standing: PassportStanding;
  readonly request: {
    readonly permission: string | null;
    readonly domain: string | null;
    readonly amount: number | null;
    readonly currency: string | null;
    readonly hasApproval: boolean;
  };
}

/** Mostly the first value: a situation must get far to show anything about the later checks. */
const mostly = <T>(usual: T, ...others: readonly T[]): fc.Arbitrary<T> =>
  fc.oneof(
    { weight: 12, arbitrary: fc.constant(usual) },
    { weight: 1, arbitrary: fc.constantFrom(...others) },
  );

const level = fc.constantFrom<TrustTier>('L1', 'L2', 'L3');
const permissions = ['orders:create', 'orders:delete', 'mail:send'];
const hosts = ['example.com', 'api.example.com', 'a.api.example.com', 'badexample.com', 'other.example'];
const patterns = [...hosts, '*.example.com', '*.api.example.com', '*.com'];
const domains = fc.option(fc.subarray(patterns), { freq: 2 });
const money = fc.option(fc.integer({ min: 0, max: 4 }));

const situation: fc.Arbitrary<Situation> = fc.record({
  gate: fc.option(
    fc.record({
      level,
      trusted: fc.oneof(fc.constant(null), fc.constant('any' as const), fc.subarray([0, 1])),
      domains,
      limit: money,
      catalog: fc.option(
        fc.uniqueArray(fc.tuple(fc.constantFrom(...permissions), money), { selector: ([key]) => key }),
      ),
    }),
    { freq: 5 },
  ),
  mode: mostly<'live' | 'test'>('live', 'test'),
  refusal: mostly<Situation['refusal']>(
    null,
    'passport_malformed',
    'passport_signature_invalid',
    'passport_unknown_key',
  ),
  passport: fc.record({
    account: mostly<0 | 1>(0, 1),
    issuer: mostly<0 | 1>(0, 1),
    mode: mostly<'live' | 'test'>('live', 'test'),
    tier: mostly<TrustTier>('L3', 'L2', 'L1'),
    permissions: fc.subarray([...permissions, 'orders:*', 'mail:*'], { minLength: 1 }),
    startsInS: mostly(0, 59, 60, 61),
    endsInS: mostly<number | null>(null, -1, 0, 1),
    domains,
    limit: money,
  }),
  standing: fc.record({
    status: mostly<PassportStanding['status']>('active', 'suspended', 'revoked'),
    isIssuerSuspended: mostly(false, true),
    isAccountSuspended: mostly(false, true),
    isKeyCompromised: mostly(false, true),
    stateAgeMs: mostly(0, 5_000, 5_001, 60_000, 60_001),
  }),
  request: fc.record({
    permission: fc.option(fc.constantFrom(...permissions), { freq: 9 }),
    domain: fc.option(fc.constantFrom(...hosts), { freq: 9 }),
    amount: money,
    currency: fc.oneof(fc.constant(null), mostly('USD', 'EUR', 'usd')),
    hasApproval: mostly(false, true),
  }),
});

interface Expected {
  readonly reason: DecisionReason | null;
  readonly evaluated: readonly CheckName[];
  readonly amount: number | null;
}

/** Decisions §4 and §5 read off line by line: every check is worked out in full, then the first that blocks is looked for. */
function oracle(situation: Situation): Expected {
  const { gate, refusal, passport, standing, request } = situation;
  const isOwn = gate !== null && passport.account === 0;
  const isNamed = gate !== null && Array.isArray(gate.trusted) && gate.trusted.includes(passport.issuer);
  const tierThatCounts = isOwn || isNamed ? passport.tier : 'L1';
  const isTrusted =
    gate === null ||
    gate.trusted === 'any' ||
    (gate.trusted === null ? isOwn : gate.trusted.includes(passport.issuer));
  const isStale =
    (gate?.level === 'L2' && standing.stateAgeMs > 60_000) ||
    (gate?.level === 'L3' && standing.stateAgeMs > 5_000);
  const isDollars = request.currency !== 'EUR' && request.currency !== 'usd';
  const price = gate?.catalog?.find(([key]) => key === request.permission)?.[1] ?? null;
  const amount = isDollars ? (request.amount ?? price) : null;
  const limits = [gate?.limit ?? null, passport.limit].filter((limit) => limit !== null);
  const lists = [gate?.domains ?? null, passport.domains].filter((list) => list !== null);

  const passportReason = (): DecisionReason | null => {
    if (refusal !== null) return refusal;
    if (standing.isKeyCompromised) return 'passport_unknown_key';
    if (passport.startsInS > 60) return 'passport_not_yet_valid';
    if (passport.endsInS !== null && passport.endsInS <= 0) return 'passport_expired';
    if (standing.status === 'revoked') return 'passport_revoked';
    if (standing.status === 'suspended' || standing.isAccountSuspended) return 'passport_suspended';
    return passport.mode === situation.mode ? null : 'mode_mismatch';
  };
  const permissionReason = (): DecisionReason | null => {
    if (request.permission === null) return 'permission_missing';
    const [area] = request.permission.split(':');
    const isGranted = passport.permissions.some((key) => key === request.permission || key === `${area}:*`);
    if (!isGranted) return 'permission_not_granted';
    const isListed = gate?.catalog?.some(([key]) => key === request.permission) ?? true;
    return isListed ? null : 'permission_not_in_catalog';
  };
  const domainReason = (): DecisionReason | null => {
    if (request.domain === null) return 'domain_missing';
    const host = request.domain;
    const allows = (list: readonly string[]) =>
      list.some(
        (pattern) => pattern === host || (pattern.startsWith('*') && host.endsWith(pattern.slice(1))),
      );
    return lists.every(allows) ? null : 'domain_not_allowed';
  };
  const spendReason = (): DecisionReason | null => {
    if (!isDollars) return 'currency_unsupported';
    return limits.every((limit) => (amount ?? 0) <= limit) ? null : 'spend_limit_exceeded';
  };

  const checks: readonly (readonly [
    CheckName | 'approval_id presented',
    boolean,
    () => DecisionReason | null,
  ])[] = [
    ['passport', true, passportReason],
    [
      'trust_level',
      gate !== null,
      () => (tierThatCounts >= (gate?.level ?? '') ? null : 'trust_level_insufficient'),
    ],
    ['freshness', gate !== null && gate.level !== 'L1', () => (isStale ? 'state_stale' : null)],
    ['issuer', true, () => (isTrusted && !standing.isIssuerSuspended ? null : 'issuer_untrusted')],
    ['permission', gate !== null || request.permission !== null, permissionReason],
    ['approval_id presented', request.hasApproval, () => 'approval_mismatch'],
    ['domain_allowlist', lists.length > 0, domainReason],
    ['spend_limit', limits.length > 0 || !isDollars, spendReason],
  ];
  const configured = checks.filter(([, isConfigured]) => isConfigured);
  const blocking = configured.findIndex(([, , reason]) => reason() !== null);
  const reached = blocking === -1 ? configured : configured.slice(0, blocking + 1);
  return {
    reason: blocking === -1 ? null : (configured[blocking]?.[2]() ?? null),
    evaluated: reached.map(([name]) => name).filter((name) => name !== 'approval_id presented'),
    amount,
  };
}

const microOrNull = (amount: number | null) => amount as MicroUsd | null;

function policyOf({ gate, mode }: Situation): CompiledPolicy {
  if (gate === null) return noGate(mode);
  const spendLimits = {
    perTransactionMicroUsd: microOrNull(gate.limit),
    dailyMicroUsd: null,
    monthlyMicroUsd: null,
    per: 'gate' as const,
    alertAt: 0.8,
  };
  const { trusted } = gate;
  const trustedIssuers =
    trusted === null || trusted === 'any'
      ? trusted
      : trusted.map((index) => (index === 0 ? issuers[0] : issuers[1]));
  const catalog: CatalogPrices | null =
    gate.catalog === null
      ? null
      : new Map(gate.catalog.map(([key, price]) => [key as PermissionKey, microOrNull(price)]));
  const constraints = { ...noConstraints, allowedDomains: gate.domains, spendLimits, trustedIssuers };
  return compileGate(
    { gateId: id('gate', 1), accountId: accounts[0], mode, version: 1, trustLevel: gate.level, constraints },
    catalog,
  );
}

function factsOf({ refusal, passport, standing }: Situation): PassportFacts {
  if (refusal !== null) return { kind: 'refused', reason: refusal };
  const verified: VerifiedPassport = {
    passportId: id('pass', 1),
    issuerId: issuers[passport.issuer],
    accountId: accounts[passport.account],
    agentId: 'agent-1',
    mode: passport.mode,
    trustTier: passport.tier,
    permissions: new Set(passport.permissions),
    notBeforeS: (nowS + passport.startsInS) as UnixSeconds,
    expiresAtS: passport.endsInS === null ? null : ((nowS + passport.endsInS) as UnixSeconds),
    allowedDomains: passport.domains === null ? null : compileDomains(passport.domains),
    perTransactionMicroUsd: microOrNull(passport.limit),
    keyId: 'key-1',
    tokenHash: 'hash-1',
  };
  return { kind: 'verified', passport: verified, standing };
}

const requestOf = ({ request }: Situation): RequestFacts => ({
  permissionKey: request.permission as PermissionKey | null,
  amountMicroUsd: microOrNull(request.amount),
  currency: request.currency,
  domain: request.domain,
  approvalId: request.hasApproval ? id('appr', 1) : null,
  requestHash: '',
});

describe('decide', () => {
  it('equals a slow oracle read off the decisions page, and gives every reason on the way', {
    timeout: 300_000,
  }, () => {
    const seen = new Set<DecisionReason | null>();
    fc.assert(
      fc.property(situation, (each) => {
        const expected = oracle(each);
        const decision = decide(policyOf(each), factsOf(each), requestOf(each), noWindows, nowMs);
        seen.add(expected.reason);
        expect(decision).toMatchObject({
          outcome: expected.reason === null ? 'PERMIT' : 'BLOCK',
          reason: expected.reason,
          evaluated: expected.evaluated,
          amountMicroUsd: expected.amount,
          charge: expected.reason === null ? { moneyMicroUsd: expected.amount ?? 0 } : null,
        });
        expect(decision.limitMiss === null).toBe(expected.reason !== 'spend_limit_exceeded');
      }),
      { numRuns: runs(10_000) },
    );
    // The control: an oracle that never gets anywhere would agree with anything.
    expect([...seen].sort()).toEqual([...reachable].sort());
  });
});

const reachable: readonly (DecisionReason | null)[] = [
  null,
  'passport_malformed',
  'passport_signature_invalid',
  'passport_unknown_key',
  'passport_not_yet_valid',
  'passport_expired',
  'passport_revoked',
  'passport_suspended',
  'mode_mismatch',
  'trust_level_insufficient',
  'state_stale',
  'issuer_untrusted',
  'permission_missing',
  'permission_not_granted',
  'permission_not_in_catalog',
  'approval_mismatch',
  'domain_missing',
  'domain_not_allowed',
  'currency_unsupported',
  'spend_limit_exceeded',
];
