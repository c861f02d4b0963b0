import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { demandedApprovalMs } from '../../shared/decision/check-approval.ts';
import type { CompiledGate } from '../../shared/decision/compile-gate.ts';
import { decide } from '../../shared/decision/decide.ts';
import type { Decision, QuotaView } from '../../shared/decision/facts.ts';
import { type AttestationRecord, emptyExtras, noCarried } from '../../shared/model/attestation.ts';
import type { UnixSeconds } from '../../shared/model/time.ts';
import { type DecidedAgain, decideAgain, type SamePart } from '../../shared/replay/decide-again.ts';
import { runs } from '../support/base/runs.ts';
import {
  factsOf,
  nowMs,
  policyOf,
  quotaOf,
  requestOf,
  type Situation,
  situation,
} from './decide-situation.ts';

/** A gate, and one that differs from it in a few members. */
const pair = fc
  .tuple(
    situation,
    situation,
    fc.subarray(
      [
        'domains',
        'perTransaction',
        'day',
        'minuteRate',
        'approvals',
        'isUnpricedPermitted',
        'level',
        'trusted',
        'catalog',
        'pii',
        'proof',
        'conditions',
      ] as const,
      { minLength: 0, maxLength: 3 },
    ),
    fc.boolean(),
  )
  .filter(([one, other]) => one.gate !== null && other.gate !== null)
  .map(([one, other, members, isIssuerActive]) => {
    const changed = Object.fromEntries(members.map((name) => [name, other.gate?.[name]]));
    const next: Situation = { ...one, gate: { ...one.gate, ...changed } as Situation['gate'] };
    return { one, next, isIssuerActive };
  });

const finalQuota = (each: Situation): QuotaView => {
  const quota = quotaOf(each);
  const final = (views: QuotaView['spend']) => views.map((view) => ({ ...view, isFinal: true }));
  return { ...quota, spend: final(quota.spend), rate: final(quota.rate) };
};

const recordOf = (each: Situation, decision: Decision): AttestationRecord => {
  const facts = factsOf(each);
  const request = requestOf(each);
  const isSuspend = decision.outcome === 'SUSPEND';
  const passport = facts.kind === 'verified' ? facts.passport : null;
  const standing = decision.outcome === 'PERMIT' ? decision.standingApproval : null;
  return {
    ...emptyExtras,
    id: 'att_1' as AttestationRecord['id'],
    chainId: 'pass_1' as AttestationRecord['chainId'],
    passportId: passport?.passportId ?? null,
    gateId: (policyOf(each) as CompiledGate).gateId,
    decision: decision.outcome,
    reason: decision.reason,
    requestHash: '',
    permissionKey: request.permissionKey,
    amountMicroUsd: decision.amountMicroUsd,
    constraintsEvaluated: decision.evaluated,
    pii: decision.pii,
    test: false,
    resolution: isSuspend ? 'approved' : null,
    refersTo: null,
    source: 'control-plane',
    sourceAccount: null,
    timestampMs: nowMs,
    carried: isSuspend ? null : { ...noCarried, conditions: decision.conditions },
    holdExpiresAtMs: decision.hold?.expiresAtMs ?? null,
    domain: isSuspend ? null : request.domain,
    stateAgeMs: isSuspend ? null : each.standing.stateAgeMs,
    approvalId:
      decision.outcome === 'PERMIT'
        ? (standing?.standingApprovalId ?? request.approvalId)
        : isSuspend
          ? 'appr_1'
          : null,
  };
};

const conditionedOf = (conditions: readonly { readonly permissions: readonly string[] | null }[]) =>
  conditions.map(({ permissions }) => (permissions === null ? null : new Set(permissions)));

const partsOf = ({ gate }: Situation): Record<SamePart, unknown> => ({
  trust: [gate?.level, gate?.trusted],
  routes: null,
  conditions: gate?.conditions,
  domains: gate?.domains,
  pii: gate?.pii,
  spend: [gate?.perTransaction, gate?.day?.limit, gate?.month?.limit, gate?.isUnpricedPermitted],
  rate: [gate?.minuteRate?.limit, gate?.hourRate?.limit],
});

function again(one: Situation, next: Situation, decision: Decision, isIssuerActive: boolean): DecidedAgain {
  const facts = factsOf(one);
  const [before, after] = [partsOf(one), partsOf(next)];
  const has = Object.fromEntries(
    Object.entries(before).map(([part, value]) => [part, isDeepStrictEqual(value, after[part as SamePart])]),
  ) as Record<SamePart, boolean>;
  const isSame = isDeepStrictEqual(one.gate, next.gate);
  const known =
    facts.kind === 'refused'
      ? null
      : {
          passport: { ...facts.passport, conditions: [], notBeforeS: 0 as UnixSeconds, expiresAtS: null },
          isFederated: false,
          conditions: conditionedOf(one.passport.conditions),
          isIssuerActive: isIssuerActive && !one.standing.isIssuerSuspended,
        };
  const { spend, rate } = finalQuota(next);
  return decideAgain(
    {
      record: recordOf(one, decision),
      known,
      former: { policy: { ...policyOf(one), conditions: [] }, hash: 'one', has },
    },
    {
      gate: { ...(policyOf(next) as CompiledGate), conditions: [] },
      hash: isSame ? 'one' : 'other',
      conditions: conditionedOf(next.gate?.conditions ?? []),
    },
    { windows: { quota: { spend, rate }, open: null }, drift: { mayBeFuller: false, mayBeEmptier: false } },
  );
}

/** Whether such a record comes from a request as agents send it (docs/backtest.md). */
function isUsual(one: Situation): boolean {
  const [policy, facts, request] = [policyOf(one), factsOf(one), requestOf(one)];
  if (facts.kind === 'refused') return true;
  const { passport } = facts;
  const isAboutMoney = [policy, passport].some(
    ({ perTransactionMicroUsd, spendWindows, approvals }) =>
      perTransactionMicroUsd !== null ||
      spendWindows.length > 0 ||
      (approvals?.aboveMicroUsd ?? null) !== null,
  );
  if (!isAboutMoney && (request.hold !== null || !['USD', null].includes(request.currency))) return false;
  if (request.approval === 'none') return true;
  if (demandedApprovalMs(policy, passport, { ...request, approval: 'none' }, request.amountMicroUsd) === null)
    return false;
  const asked = decide(
    policy,
    { ...facts, standing: { ...facts.standing, isIssuerSuspended: false, stateAgeMs: 0 } },
    {
      ...request,
      approval: 'none',
      proof: { kind: 'verified', scheme: 'dpop', fromMs: nowMs, untilMs: nowMs, firstUse: 'exact' },
    },
    {
      ...finalQuota(one),
      spend: finalQuota(one).spend.map((view) => ({ ...view, available: view.limit })),
      rate: finalQuota(one).rate.map((view) => ({ ...view, available: view.limit })),
      standingApprovals: [],
    },
    nowMs,
  );
  return asked.outcome === 'SUSPEND';
}

it('says of another policy what it would have said, or that it cannot be known', () => {
  const seen = new Map<string, number>();
  fc.assert(
    fc.property(pair, ({ one, next, isIssuerActive }) => {
      const [facts, request] = [factsOf(one), requestOf(one)];
      const live = decide(policyOf(one), facts, request, finalQuota(one), nowMs);
      fc.pre(
        live.unknown === null &&
          isUsual(one) &&
          !(request.approval === 'pending' && live.outcome === 'SUSPEND'),
      );
      const isSame = isDeepStrictEqual(one.gate, next.gate);
      const quota = { ...finalQuota(next), ...(isSame ? {} : { standingApprovals: [] }) };
      const truth = decide(policyOf(next), facts, requestOf(next), quota, nowMs);
      fc.pre(truth.unknown === null);
      const found = again(one, next, live, isIssuerActive);
      const kind = 'undecided' in found ? `undecided ${found.undecided}` : `${live.outcome} ${found.outcome}`;
      seen.set(kind, (seen.get(kind) ?? 0) + 1);
      if ('undecided' in found) {
        expect(isSame).toBe(false);
        return;
      }
      expect(found.outcome).toBe(truth.outcome);
      if (found.outcome !== live.outcome) expect(found.reason).toBe(truth.reason);
      if (isSame) expect(found.reason).toBe(live.reason);
    }),
    { numRuns: runs({ short: 1_500, long: 1_000_000 }) },
  );
  // The control: an answer that is never given would agree with anything.
  expect([...seen.keys()]).toContain('PERMIT BLOCK');
  expect(seen.size).toBeGreaterThan(6);
});
