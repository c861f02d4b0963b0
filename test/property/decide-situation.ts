import fc from 'fast-check';
import { digestWordsOf } from '../../shared/crypto/id-digest.ts';
import { compileApprovals } from '../../shared/decision/compile-approvals.ts';
import { compileConditions } from '../../shared/decision/compile-conditions.ts';
import { compileDomains } from '../../shared/decision/compile-domains.ts';
import { type CompiledPolicy, compileGate, noGate } from '../../shared/decision/compile-gate.ts';
import {
  compileRateWindows,
  compileSpendWindows,
  spendNeedsAmount,
} from '../../shared/decision/compile-windows.ts';
import type {
  PassportFacts,
  PassportStanding,
  PresentedProof,
  QuotaView,
  RequestFacts,
  VerifiedPassport,
  WindowView,
} from '../../shared/decision/facts.ts';
import type { PresentedApproval } from '../../shared/model/approval.ts';
import type { CatalogTerms } from '../../shared/model/catalog.ts';
import type { Condition } from '../../shared/model/condition.ts';
import type { ApprovalRule, PiiMode, RateLimits, SpendLimits } from '../../shared/model/constraints.ts';
import { makeId } from '../../shared/model/ids.ts';
import type { MicroUsd } from '../../shared/model/money.ts';
import type { PermissionKey } from '../../shared/model/permission.ts';
import { type ProofDemand, type ProofScheme, proofReplays } from '../../shared/model/proof.ts';
import type { StandingApprovalTerms } from '../../shared/model/standing-approval.ts';
import type { UnixMillis, UnixSeconds } from '../../shared/model/time.ts';
import type { TrustTier } from '../../shared/model/trust-tier.ts';
import { noConstraints } from '../../shared/wire/api/constraints.ts';

const nowS = 1_800_000_000;
export const nowMs = (nowS * 1_000) as UnixMillis;
const id = <P extends Parameters<typeof makeId>[0]>(prefix: P, byte: number) =>
  makeId(prefix, nowMs, new Uint8Array(10).fill(byte));

const accounts = [id('acct', 1), id('acct', 2)] as const;
const issuers = [id('iss', 1), id('iss', 2)] as const;

/** A limit on a window, and what is known of it now. */
export interface Window {
  readonly limit: number;
  readonly available: number;
  readonly used: number;
  readonly isFinal: boolean;
  readonly endsInMs: number;
}

export interface Rule {
  readonly above: number | null;
  readonly permissions: readonly string[];
  readonly expiresInMs: number;
}

/** What a gate and a passport may both ask for. */
interface Limits {
  readonly domains: readonly string[] | null;
  readonly perTransaction: number | null;
  readonly day: Window | null;
  readonly month: Window | null;
  readonly minuteRate: Window | null;
  readonly hourRate: Window | null;
  readonly approvals: Rule | null;
  readonly isUnpricedPermitted: boolean;
  readonly conditions: readonly Claim[];
}

/** A condition that is met, is not, or reads a member that no request has. */
export interface Claim {
  readonly id: string;
  readonly truth: boolean | 'error';
  readonly permissions: readonly string[] | null;
  readonly otherwise: 'block' | 'approve';
  readonly message: string | null;
}

/**
 * Everything that a decision depends on, in words of the decisions page; few values each, so that they often
 * meet.
 */
export interface Situation {
  readonly gate:
    | (Limits & {
        readonly level: TrustTier;
        readonly trusted: readonly (0 | 1 | 'own')[] | 'any' | null;
        readonly catalog: readonly Offer[] | null;
        readonly pii: PiiMode | null;
        readonly proof: ProofDemand;
        readonly holdSeconds: number | null;
      })
    | null;
  readonly mode: 'live' | 'test';
  readonly refusal: 'passport_malformed' | 'passport_signature_invalid' | 'passport_unknown_key' | null;
  readonly passport: Limits & {
    readonly account: 0 | 1;
    readonly issuer: 0 | 1;
    readonly mode: 'live' | 'test';
    readonly tier: TrustTier;
    readonly permissions: readonly string[];
    readonly startsInS: number;
    readonly endsInS: number | null;
    readonly proof: ProofDemand;
  };
  readonly standing: PassportStanding;
  /** Standing approvals at the gate, in the order in which they are looked at. */
  readonly ahead: readonly Ahead[];
  readonly request: {
    readonly permission: string | null;
    readonly domain: string | null;
    readonly amount: number | null;
    readonly currency: string | null;
    readonly approval: PresentedApproval;
    readonly proof: PresentedProof;
    readonly findings: number;
    readonly isScannedToItsEnd: boolean;
    readonly hold: { readonly seconds: number | null } | null;
  };
}

/** What is approved ahead, and what is known to be left of it. */
interface Ahead {
  /** An owner has passports of the gate's account alone. */
  readonly for: 'passport' | 'other passport' | 'owner' | 'other owner';
  readonly permission: string;
  readonly each: number;
  readonly endsInMs: number;
  readonly available: number;
  readonly isFinal: boolean;
}

interface Offer {
  readonly key: string;
  readonly price: number | null;
  readonly requiresApproval: boolean;
}

/** Mostly the first value: a situation must get far to show anything about the later checks. */
const mostly = <T>(usual: T, ...others: readonly T[]): fc.Arbitrary<T> =>
  fc.oneof(
    { weight: 16, arbitrary: fc.constant(usual) },
    { weight: 1, arbitrary: fc.constantFrom(...others) },
  );
/** Null in `share` of 10 cases. */
const seldom = <T>(share: number, arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | null> =>
  fc.oneof({ weight: share, arbitrary: fc.constant(null) }, { weight: 10 - share, arbitrary });

const permissions = ['orders:create', 'orders:delete', 'mail:send'];
const hosts = ['example.com', 'api.example.com', 'a.api.example.com', 'badexample.com', 'other.example'];
const patterns = [...hosts, '*.example.com', '*.api.example.com', '*.com'];
const money = fc.integer({ min: 0, max: 4 });

const window: fc.Arbitrary<Window> = fc.record({
  limit: fc.constantFrom(0, 1, 2, 3, 4, 4, 4),
  available: fc.constantFrom(0, 1, 2, 3, 4, 4, 4),
  used: money,
  isFinal: fc.boolean(),
  endsInMs: fc.constantFrom(1, 2, 3),
});

const limits = {
  domains: seldom(8, fc.subarray(patterns, { minLength: 3 })),
  perTransaction: seldom(6, fc.constantFrom(0, 2, 3, 4)),
  day: seldom(7, window),
  month: seldom(7, window),
  minuteRate: seldom(7, window),
  hourRate: seldom(7, window),
  isUnpricedPermitted: fc.boolean(),
  conditions: fc.oneof(
    { weight: 3, arbitrary: fc.constant([]) },
    {
      weight: 2,
      arbitrary: fc.uniqueArray(
        fc.record({
          id: fc.constantFrom('a', 'b', 'c'),
          truth: fc.constantFrom<Claim['truth']>(true, true, true, false, false, 'error'),
          permissions: fc.option(fc.subarray([...permissions, 'orders:*'], { minLength: 1 })),
          otherwise: fc.constantFrom<Claim['otherwise']>('block', 'approve', 'approve'),
          message: fc.option(fc.constantFrom('Not so.', 'Ask first.')),
        }),
        { selector: ({ id: name }) => name, minLength: 1 },
      ),
    },
  ),
  approvals: seldom(
    7,
    fc.record({
      above: fc.option(money),
      permissions: fc.subarray([...permissions, 'orders:*', 'mail:*', 'order:*']),
      expiresInMs: fc.constantFrom(1_000, 3_600_000, 600_000),
    }),
  ),
};

const offer: fc.Arbitrary<Offer> = fc.record({
  key: fc.constantFrom(...permissions),
  price: fc.option(money),
  requiresApproval: fc.boolean(),
});

export const situation: fc.Arbitrary<Situation> = fc.record({
  gate: seldom(
    1,
    fc.record({
      ...limits,
      level: fc.constantFrom<TrustTier>('L1', 'L2', 'L3'),
      trusted: fc.oneof(fc.constant(null), fc.constant('any' as const), fc.subarray([0, 1, 'own'] as const)),
      catalog: seldom(7, fc.uniqueArray(offer, { selector: ({ key }) => key, minLength: 1 })),
      pii: seldom(5, fc.constantFrom<PiiMode>('log_only', 'redact', 'block')),
      proof: mostly<ProofDemand>('off', 'sidecar', 'exact'),
      holdSeconds: seldom(5, fc.constant(120)),
    }),
  ),
  mode: mostly<'live' | 'test'>('live', 'test'),
  refusal: mostly<Situation['refusal']>(
    null,
    'passport_malformed',
    'passport_signature_invalid',
    'passport_unknown_key',
  ),
  passport: fc.record({
    ...limits,
    account: mostly<0 | 1>(0, 1),
    issuer: mostly<0 | 1>(0, 1),
    mode: mostly<'live' | 'test'>('live', 'test'),
    tier: mostly<TrustTier>('L3', 'L2', 'L1'),
    permissions: fc.oneof(
      { weight: 4, arbitrary: fc.constant(['orders:*', 'mail:send']) },
      { weight: 1, arbitrary: fc.subarray([...permissions, 'orders:*', 'mail:*'], { minLength: 1 }) },
    ),
    startsInS: mostly(0, 59, 60, 61),
    endsInS: mostly<number | null>(null, -1, 0, 1),
    proof: mostly<ProofDemand>('off', 'sidecar', 'exact'),
  }),
  standing: fc.record({
    status: mostly<PassportStanding['status']>('active', 'suspended', 'revoked'),
    isIssuerSuspended: mostly(false, true),
    isAccountSuspended: mostly(false, true),
    isKeyCompromised: mostly(false, true),
    isInWallet: fc.constant(false),
    stateAgeMs: mostly(0, 5_000, 5_001, 60_000, 60_001),
  }),
  ahead: fc.array(
    fc.record({
      for: fc.constantFrom('passport' as const, 'other passport', 'owner', 'owner', 'other owner'),
      permission: fc.constantFrom(...permissions),
      each: fc.constantFrom(1, 2, 3, 4, 4),
      endsInMs: mostly(1, 0, -1),
      available: fc.constantFrom(0, 1, 2, 4),
      isFinal: fc.boolean(),
    }),
    { maxLength: 3 },
  ),
  request: fc.record({
    permission: fc.option(fc.constantFrom(...permissions), { freq: 15 }),
    domain: fc.option(fc.constantFrom(...hosts), { freq: 15 }),
    amount: fc.option(money, { freq: 4 }),
    currency: fc.oneof(fc.constant(null), mostly('USD', 'EUR', 'usd')),
    approval: fc.oneof(
      { weight: 8, arbitrary: fc.constant<PresentedApproval>('none') },
      {
        weight: 4,
        arbitrary: fc.constantFrom<PresentedApproval>('pending', 'approved'),
      },
      {
        weight: 1,
        arbitrary: fc.constantFrom<PresentedApproval>('unasked', 'mismatch', 'denied', 'expired', 'used'),
      },
    ),
    proof: fc.oneof(
      fc.record({
        kind: fc.constant('verified' as const),
        scheme: fc.constantFrom<ProofScheme>('dpop', 'httpsig'),
        fromMs: mostly(nowMs, (nowMs - 1) as UnixMillis, (nowMs + 1) as UnixMillis),
        untilMs: mostly(nowMs, (nowMs + 1) as UnixMillis, (nowMs - 1) as UnixMillis),
        firstUse: fc.constantFrom(...proofReplays),
      }),
      fc.record({ kind: fc.constantFrom('none', 'unread', 'invalid', 'replayed', 'unavailable' as const) }),
    ),
    findings: fc.constantFrom(0, 0, 1, 32),
    isScannedToItsEnd: mostly(true, false),
    hold: fc.constantFrom(null, null, { seconds: null }, { seconds: 60 }),
  }),
});

const microOrNull = (amount: number | null) => amount as MicroUsd | null;

const spendLimitsOf = ({ perTransaction, day, month, isUnpricedPermitted }: Limits): SpendLimits => ({
  perTransactionMicroUsd: microOrNull(perTransaction),
  dailyMicroUsd: microOrNull(day?.limit ?? null),
  monthlyMicroUsd: microOrNull(month?.limit ?? null),
  per: 'gate',
  alertAt: 0.8,
  unpriced: isUnpricedPermitted ? 'permit' : 'block',
});
const rateLimitsOf = ({ minuteRate, hourRate }: Limits): RateLimits => ({
  requestsPerMinute: minuteRate?.limit ?? null,
  requestsPerHour: hourRate?.limit ?? null,
  requestsPerDay: null,
  per: 'gate',
});
const ruleOf = ({ approvals }: Limits): ApprovalRule | null =>
  approvals === null
    ? null
    : {
        aboveMicroUsd: microOrNull(approvals.above),
        permissions: approvals.permissions as readonly PermissionKey[],
        expiresInMs: approvals.expiresInMs,
        approvers: null,
        passkey: false,
      };

const words = { true: 'request.yes', false: 'request.no', error: 'request.maybe' } as const;
const conditionsOf = ({ conditions }: Limits): readonly Condition[] =>
  conditions.map(({ truth, permissions: of, ...condition }) => ({
    ...condition,
    permissions: of as readonly PermissionKey[] | null,
    require: words[`${truth}`],
  }));

export function policyOf({ gate, mode }: Situation): CompiledPolicy {
  if (gate === null) return noGate({ accountId: accounts[0], mode });
  const { trusted } = gate;
  const catalog: CatalogTerms | null =
    gate.catalog === null
      ? null
      : new Map(
          gate.catalog.map(({ key, price, requiresApproval }) => [
            key as PermissionKey,
            { priceMicroUsd: microOrNull(price), requiresApproval },
          ]),
        );
  const constraints = {
    ...noConstraints,
    allowedDomains: gate.domains,
    spendLimits: spendLimitsOf(gate),
    rateLimits: rateLimitsOf(gate),
    approvals: ruleOf(gate),
    proofOfPossession: gate.proof,
    conditions: conditionsOf(gate),
    piiControls: gate.pii === null ? null : { mode: gate.pii, types: ['email' as const] },
    trustedIssuers:
      trusted === null || trusted === 'any'
        ? trusted
        : {
            own: trusted.includes('own'),
            named: trusted.flatMap((each) => (each === 'own' ? [] : [issuers[each]])),
          },
  };
  return compileGate(
    {
      gateId: id('gate', 1),
      accountId: accounts[0],
      mode,
      version: 1,
      policyVersion: 1,
      policyHash: null,
      trustLevel: gate.level,
      constraints: {
        ...constraints,
        holds:
          gate.holdSeconds === null
            ? null
            : { expiresInMs: gate.holdSeconds * 1_000, onExpiry: 'settle', overrun: 'refuse' },
      },
    },
    catalog,
  );
}

export function factsOf({ refusal, passport, standing }: Situation): PassportFacts {
  if (refusal !== null) return { kind: 'refused', reason: refusal };
  const verified: VerifiedPassport = {
    ...{
      passportId: id('pass', 1),
      issuerId: issuers[passport.issuer],
      accountId: accounts[passport.account],
    },
    ...{ agentId: 'agent-1', mode: passport.mode, trustTier: passport.tier, hasWallet: false },
    permissions: new Set(passport.permissions),
    notBeforeS: (nowS + passport.startsInS) as UnixSeconds,
    expiresAtS: passport.endsInS === null ? null : ((nowS + passport.endsInS) as UnixSeconds),
    allowedDomains: passport.domains === null ? null : compileDomains(passport.domains),
    perTransactionMicroUsd: microOrNull(passport.perTransaction),
    spendWindows: compileSpendWindows(spendLimitsOf(passport), 'passport'),
    spendNeedsAmount: spendNeedsAmount(spendLimitsOf(passport)),
    rateWindows: compileRateWindows(rateLimitsOf(passport), 'passport'),
    approvals: compileApprovals({ approvals: ruleOf(passport), spendLimits: spendLimitsOf(passport) }),
    ...{ conditions: compileConditions(conditionsOf(passport)), foreignClaims: {} },
    ...{ proof: passport.proof, agentKey: 'key-of-agent-1', keyId: 'key-1', tokenHash: 'hash-1' },
    ...{
      digests: digestWordsOf(id('pass', 1)),
      owner: 'owner',
      user: null,
      userKey: null,
      actors: [],
      source: null,
      among: '',
    },
  };
  return { kind: 'verified', passport: verified, standing };
}

export const findingsOf = (count: number) =>
  Array.from({ length: count }, (_, at) => ({ pointer: `/${at}`, type: 'email' }));

export const requestOf = ({ gate, request }: Situation): RequestFacts => ({
  permissionKey: request.permission as PermissionKey | null,
  amountMicroUsd: microOrNull(request.amount),
  approvalId: request.approval === 'none' ? null : id('appr', 1),
  ...{ currency: request.currency, domain: request.domain, approval: request.approval, proof: request.proof },
  hold:
    request.hold === null
      ? null
      : { expiresInMs: request.hold.seconds === null ? null : request.hold.seconds * 1_000 },
  ...{ idempotencyKey: null, display: null, requestHash: '', asked: { yes: true, no: false } },
  pii:
    gate === null || gate.pii === null
      ? null
      : { findings: findingsOf(request.findings), isComplete: request.isScannedToItsEnd },
});

/** The terms of the standing approvals, by their place. */
export const termsOf = ({ ahead }: Situation): readonly StandingApprovalTerms[] =>
  ahead.map(({ for: whose, permission, each, endsInMs }, place) => ({
    standingApprovalId: id('sappr', place),
    passportId: whose.endsWith('owner') ? null : id('pass', whose === 'passport' ? 1 : 2),
    owner: whose.endsWith('owner') ? whose : null,
    permissionKey: permission as PermissionKey,
    eachMicroUsd: each as MicroUsd,
    totalMicroUsd: 4 as MicroUsd,
    expiresAtMs: (nowMs + endsInMs) as UnixMillis,
  }));

export function quotaOf(situation: Situation): QuotaView {
  const { gate, passport, ahead } = situation;
  const viewsOf = (windows: readonly (Window | null | undefined)[]): readonly WindowView[] =>
    windows
      .filter((each) => each !== null && each !== undefined)
      .map(({ endsInMs, ...rest }) => ({ ...rest, endsAtMs: (nowMs + endsInMs) as UnixMillis }));
  return {
    spend: viewsOf([gate?.day, gate?.month, passport.day, passport.month]),
    rate: viewsOf([gate?.minuteRate, gate?.hourRate, passport.minuteRate, passport.hourRate]),
    wallet: null,
    standingApprovals: termsOf(situation).map((terms, place) => ({
      terms,
      window: {
        limit: 4,
        used: 0,
        available: ahead[place]?.available ?? 0,
        isFinal: ahead[place]?.isFinal ?? true,
        endsAtMs: terms.expiresAtMs,
      },
    })),
  };
}
