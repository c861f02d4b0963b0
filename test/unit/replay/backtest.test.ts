import fc from 'fast-check';
import { expect, test } from 'vitest';
import { must } from '../../../shared/errors/assert.ts';
import { type AttestationRecord, emptyExtras, noCarried } from '../../../shared/model/attestation.ts';
import type { CheckName } from '../../../shared/model/decision.ts';
import type { AccountId, GateId } from '../../../shared/model/ids.ts';
import { idTime } from '../../../shared/model/ids.ts';
import type { MicroUsd } from '../../../shared/model/money.ts';
import { dayMs, hourMs, minuteMs, type UnixMillis } from '../../../shared/model/time.ts';
import { Backtest, type Beside } from '../../../shared/replay/backtest.ts';
import { compileStatedPassport } from '../../../shared/replay/evidence.ts';
import { formerPolicyOf, otherPolicyOf, type StatedPolicy } from '../../../shared/replay/former-policy.ts';

const fromMs = Date.UTC(2026, 9, 5) as UnixMillis;
const untilMs = (fromMs + 30 * dayMs) as UnixMillis;
const holder = { gateId: 'gate_1' as GateId, accountId: 'acct_1' as AccountId, mode: 'live' as const };

const policy = (constraints: object, more: object = {}): StatedPolicy => {
  const body = {
    catalog_hash: null,
    catalog_version: null,
    constraints,
    routes: [],
    trust_level: 'L1',
    ...more,
  };
  return { hash: `sha256:${JSON.stringify(body)}`, body, catalog: null };
};

const passports = ['pass_1', 'pass_2'].map((id) => {
  const passport = compileStatedPassport({
    passport_id: id,
    account_id: 'acct_1',
    mode: 'live',
    issuer_id: 'iss_1',
    agent_id: `agent of ${id}`,
    permissions: ['orders:create'],
    constraints: {},
    trust_tier: 'L2',
    public_key: '',
    token_hash: 'hash',
    issued_at: '2026-01-01T00:00:00.000Z',
    expires_at: null,
  } as Parameters<typeof compileStatedPassport>[0]);
  return must(passport, 'it can be read');
});

interface Asked {
  readonly amount: number | null;
  readonly domain: string | null;
  readonly atMs: number;
  readonly whose: number;
}

/** A gate with one day and one minute, as it decides by itself: the reference. */
function decideAll(
  rule: { daily?: number; perMinute?: number; domains?: readonly string[] },
  all: readonly Asked[],
) {
  const spent = new Map<number, number>();
  const asked = new Map<number, number>();
  return all.map(({ amount, domain, atMs }) => {
    if (rule.domains !== undefined && !rule.domains.includes(domain ?? ''))
      return {
        decision: 'BLOCK',
        reason: domain === null ? 'domain_missing' : 'domain_not_allowed',
      } as const;
    const [day, minute] = [Math.floor(atMs / dayMs), Math.floor(atMs / minuteMs)];
    if (rule.daily !== undefined) {
      if (amount === null) return { decision: 'BLOCK', reason: 'amount_missing' } as const;
      if (amount > 0 && (spent.get(day) ?? 0) + amount > rule.daily)
        return { decision: 'BLOCK', reason: 'spend_limit_exceeded' } as const;
    }
    if (rule.perMinute !== undefined && (asked.get(minute) ?? 0) + 1 > rule.perMinute)
      return { decision: 'BLOCK', reason: 'rate_limit_exceeded' } as const;
    spent.set(day, (spent.get(day) ?? 0) + (amount ?? 0));
    asked.set(minute, (asked.get(minute) ?? 0) + 1);
    return { decision: 'PERMIT', reason: null } as const;
  });
}

const constraintsOf = (rule: Parameters<typeof decideAll>[0]) => ({
  ...(rule.domains === undefined ? {} : { allowed_domains: [...rule.domains] }),
  ...(rule.daily === undefined ? {} : { spend_limits: { daily_usd: rule.daily / 1e6 } }),
  ...(rule.perMinute === undefined ? {} : { rate_limits: { requests_per_minute: rule.perMinute } }),
});

function recordOf(
  { amount, domain, atMs, whose }: Asked,
  { decision, reason }: Pick<AttestationRecord, 'decision' | 'reason'>,
  { place, hash, rule }: { place: number; hash: string; rule: Parameters<typeof decideAll>[0] },
): AttestationRecord {
  const checks: readonly CheckName[] = ['passport', 'trust_level', 'issuer', 'permission'];
  const all: readonly CheckName[] = [
    ...checks,
    ...(rule.domains === undefined ? [] : (['domain_allowlist'] as const)),
    ...(rule.daily === undefined ? [] : (['spend_limit'] as const)),
    ...(rule.perMinute === undefined ? [] : (['rate_limit'] as const)),
  ];
  const last: Readonly<Record<string, CheckName>> = {
    domain_missing: 'domain_allowlist',
    domain_not_allowed: 'domain_allowlist',
    amount_missing: 'spend_limit',
    spend_limit_exceeded: 'spend_limit',
    rate_limit_exceeded: 'rate_limit',
  };
  const end = reason === null ? all.length : all.indexOf(must(last[reason], 'a check')) + 1;
  const { passportId } = must(passports[whose], 'a passport');
  return {
    ...emptyExtras,
    id: `att_${idTime(atMs as UnixMillis)}${String(place).padStart(16, '0')}` as AttestationRecord['id'],
    chainId: passportId,
    passportId,
    gateId: holder.gateId,
    decision,
    reason,
    requestHash: '',
    permissionKey: 'orders:create' as AttestationRecord['permissionKey'],
    amountMicroUsd: amount as MicroUsd | null,
    constraintsEvaluated: all.slice(0, end),
    pii: [],
    test: false,
    resolution: null,
    refersTo: null,
    source: 'control-plane',
    sourceAccount: holder.accountId,
    timestampMs: atMs as UnixMillis,
    policyHash: hash,
    trustLevel: 'L1',
    domain,
    stateAgeMs: 0,
  };
}

function backtestOf(live: StatedPolicy, other: StatedPolicy, records: readonly AttestationRecord[]) {
  const backtest = new Backtest(must(otherPolicyOf(holder, other), 'it is known'), { fromMs, untilMs });
  const former = must(formerPolicyOf(holder, live, other), 'it is known');
  for (const record of records) {
    const beside: Beside = {
      former,
      known: {
        passport: must(
          passports.find((each) => each.passportId === record.passportId),
          'it is known',
        ),
        isFederated: false,
        isIssuerActive: true,
        conditions: [],
      },
    };
    if (record.resolution === null) backtest.decide(record, beside, record.timestampMs);
    else backtest.settle(record, beside);
  }
  return backtest.report();
}

const rules = fc.record(
  {
    daily: fc.integer({ min: 0, max: 40 }).map((usd) => usd * 1e6),
    perMinute: fc.integer({ min: 0, max: 4 }),
    domains: fc.subarray(['a.example', 'b.example'], { minLength: 1 }),
  },
  { requiredKeys: [] },
);
const traffic = fc
  .array(
    fc.record({
      amount: fc.option(
        fc.integer({ min: 0, max: 15 }).map((usd) => usd * 1e6),
        { freq: 9 },
      ),
      domain: fc.option(fc.constantFrom('a.example', 'b.example', 'c.example'), { freq: 9 }),
      atMs: fc.integer({ min: fromMs, max: fromMs + 3 * hourMs + 2 * dayMs }),
      whose: fc.constantFrom(0, 1),
    }),
    { maxLength: 60 },
  )
  .map((all) => [...all].sort((one, another) => one.atMs - another.atMs));

test('of the policy that decided says that everything is the same', () => {
  fc.assert(
    fc.property(rules, traffic, (rule, all) => {
      const live = policy(constraintsOf(rule));
      const decided = decideAll(rule, all);
      const records = all.map((asked, place) =>
        recordOf(asked, must(decided[place], 'decided'), { place, hash: live.hash, rule }),
      );
      const report = backtestOf(live, live, records);
      expect(report).toMatchObject({ decisions: all.length, same: all.length, different: [], undecided: [] });
    }),
  );
});

test('of another policy says what that decides of the same traffic, windows included', () => {
  let differing = 0;
  fc.assert(
    fc.property(rules, rules, traffic, (rule, next, all) => {
      const [live, other] = [policy(constraintsOf(rule)), policy(constraintsOf(next))];
      const [before, after] = [decideAll(rule, all), decideAll(next, all)];
      const records = all.map((asked, place) =>
        recordOf(asked, must(before[place], 'decided'), { place, hash: live.hash, rule }),
      );
      const { same, different, undecided, decisions } = backtestOf(live, other, records);
      expect(decisions).toBe(all.length);
      // A request without an amount may have been about another currency.
      if (undecided.length > 0) {
        expect(undecided.map(({ cause }) => cause)).toEqual(['request']);
        return;
      }
      const kinds = new Map<string, number>();
      for (const [place, { decision, reason }] of after.entries()) {
        const { decision: from, reason: why } = must(before[place], 'decided');
        if (from === decision) continue;
        const kind = `${from} ${decision} ${reason ?? why}`;
        kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
      }
      differing += kinds.size;
      expect(
        new Map(different.map(({ from, to, reason, count }) => [`${from} ${to} ${reason}`, count])),
      ).toEqual(kinds);
      expect(same).toBe(all.length - [...kinds.values()].reduce((sum, count) => sum + count, 0));
    }),
  );
  expect(differing).toBeGreaterThan(10);
});

const rule = { daily: 20e6 };
const asked = (amount: number, minutes: number): Asked => ({
  amount: amount * 1e6,
  domain: null,
  atMs: fromMs + minutes * minuteMs,
  whose: 0,
});
const permit = { decision: 'PERMIT', reason: null } as const;
const live = policy(constraintsOf(rule));
const recorded = (each: Asked, place: number, how: Parameters<typeof recordOf>[1] = permit) =>
  recordOf(each, how, { place, hash: live.hash, rule });

test('what a PERMIT gives back later makes room from then on', () => {
  const first = recorded(asked(12, 0), 1);
  const settled = {
    ...first,
    id: 'att_2',
    resolution: 'settled',
    refersTo: first.id,
    amountMicroUsd: 2e6,
  } as AttestationRecord;
  const second = recorded(asked(12, 2), 3);
  const tight = policy(constraintsOf({ daily: 15e6 }));
  expect(backtestOf(live, tight, [first, settled, second]).same).toBe(2);
  expect(backtestOf(live, tight, [first, second])).toMatchObject({
    same: 1,
    different: [{ reason: 'spend_limit_exceeded', count: 1 }],
  });
  const voided = { ...settled, resolution: 'voided' } as AttestationRecord;
  expect(backtestOf(live, tight, [first, voided, second]).same).toBe(2);
});

test('a BLOCK that the limit alone explains stays one while the window is as it was, whoever holds the units', () => {
  // Lent to another sidecar: the sum of PERMITs is below the limit.
  const blocked = recorded(asked(10, 1), 2, { decision: 'BLOCK', reason: 'spend_limit_exceeded' });
  const first = recorded(asked(5, 0), 1);
  const otherwise = policy({ ...constraintsOf(rule), allowed_domains: ['a.example'] });
  expect(backtestOf(live, live, [first, blocked]).same).toBe(2);
  expect(backtestOf(live, otherwise, [first, blocked]).different).toMatchObject([
    { from: 'PERMIT', to: 'BLOCK', reason: 'domain_missing', count: 1 },
  ]);
  const wider = policy(constraintsOf({ daily: 100e6 }));
  expect(backtestOf(live, wider, [first, blocked]).different).toMatchObject([
    { from: 'BLOCK', to: 'PERMIT' },
  ]);
});

test('conditions are undecided where no record knows that they were met', () => {
  const conditions = [{ id: 'small', require: 'request.amount < 5', permissions: ['orders:*'] }];
  const conditional = policy({ ...constraintsOf(rule), conditions });
  const all = [
    recorded(asked(5, 0), 1),
    recorded(asked(1, 1), 2, { decision: 'BLOCK', reason: 'spend_limit_exceeded' }),
  ];
  expect(backtestOf(live, conditional, all)).toMatchObject({
    same: 1,
    undecided: [{ cause: 'facts', count: 1 }],
  });
  const elsewhere = policy({
    ...constraintsOf(rule),
    conditions: [{ ...conditions[0], permissions: ['mail:send'] }],
  });
  expect(backtestOf(live, elsewhere, all)).toMatchObject({ same: 2, undecided: [] });
  const met = all.map((record) => ({
    ...record,
    policyHash: conditional.hash,
    constraintsEvaluated: [...record.constraintsEvaluated, 'conditions' as CheckName],
    carried: { ...noCarried, conditions: [] },
  }));
  const tighter = policy({ ...constraintsOf({ daily: 1e6 }), conditions });
  expect(backtestOf(conditional, tighter, met.slice(0, 1)).different).toMatchObject([
    { to: 'BLOCK', count: 1 },
  ]);
});
