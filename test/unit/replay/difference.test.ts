import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  type DecisionReason,
  decisionReasons,
  type Outcome,
  outcomes,
} from '../../../shared/model/decision.ts';
import type { MicroUsd } from '../../../shared/model/money.ts';
import { dayMs, renderTime, type UnixMillis } from '../../../shared/model/time.ts';
import { type DecidedTwice, Difference, type Verdict } from '../../../shared/replay/difference.ts';

const fromMs = Date.UTC(2026, 0, 1) as UnixMillis;
const untilMs = (fromMs + 30 * dayMs) as UnixMillis;
const permit: Verdict = { outcome: 'PERMIT', reason: null, condition: null };
const block = (reason: DecisionReason, condition: string | null = null): Verdict => ({
  outcome: 'BLOCK',
  reason,
  condition,
});

const decided = (given: Partial<DecidedTwice> = {}): DecidedTwice => ({
  id: 'att_1',
  timestampMs: fromMs,
  live: permit,
  other: permit,
  amountMicroUsd: 1_500_000 as MicroUsd,
  agentId: 'buyer',
  permissionKey: 'orders:create' as DecidedTwice['permissionKey'],
  ...given,
});

function reportOf(all: readonly DecidedTwice[]) {
  const difference = new Difference({ fromMs, untilMs });
  for (const each of all) difference.add(each);
  return difference.report();
}

test('counts what is the same, what differs by kind, and what is undecided by cause', () => {
  const report = reportOf([
    decided(),
    decided({ id: 'att_2', other: block('domain_not_allowed') }),
    decided({ id: 'att_3', other: block('domain_not_allowed'), agentId: 'seller', amountMicroUsd: null }),
    decided({ id: 'att_4', live: block('spend_limit_exceeded'), permissionKey: null }),
    decided({ id: 'att_5', live: block('pii_detected'), other: block('domain_missing') }),
    decided({ id: 'att_6', other: { undecided: 'facts' } }),
    decided({ id: 'att_7', other: block('condition_not_met' as DecisionReason, 'below-workspace') }),
  ]);
  expect(report).toEqual({
    decisions: 7,
    same: 2,
    different: [
      {
        from: 'PERMIT',
        to: 'BLOCK',
        reason: 'domain_not_allowed',
        condition: null,
        count: 2,
        amount_usd: 1.5,
      },
      {
        from: 'BLOCK',
        to: 'PERMIT',
        reason: 'spend_limit_exceeded',
        condition: null,
        count: 1,
        amount_usd: 1.5,
      },
      {
        from: 'PERMIT',
        to: 'BLOCK',
        reason: 'condition_not_met',
        condition: 'below-workspace',
        count: 1,
        amount_usd: 1.5,
      },
    ],
    by_agent: {
      named: [
        { agent_id: 'buyer', count: 3, amount_usd: 4.5 },
        { agent_id: 'seller', count: 1, amount_usd: 0 },
      ],
      others: { count: 0, amount_usd: 0 },
    },
    by_permission: {
      named: [
        { permission_key: 'orders:create', count: 3, amount_usd: 3 },
        { permission_key: null, count: 1, amount_usd: 1.5 },
      ],
      others: { count: 0, amount_usd: 0 },
    },
    over_time: {
      step_s: 12 * 3600,
      steps: [{ at: renderTime(fromMs), decisions: 7, different: 4, blocked: 3 }],
    },
    examples: ['att_7', 'att_4', 'att_3', 'att_2'],
    undecided: [{ cause: 'facts', count: 1 }],
    from: renderTime(fromMs),
    until: renderTime(untilMs),
  });
});

test('names the newest hundred, whatever the order is in which they come', () => {
  const all = Array.from({ length: 1000 }, (_, place) =>
    decided({
      id: `att_${String(place).padStart(4, '0')}`,
      timestampMs: (fromMs + place * 1000) as UnixMillis,
      other: block('domain_missing'),
    }),
  );
  const newest = all
    .slice(-100)
    .map(({ id }) => id)
    .reverse();
  expect(reportOf(all).examples).toEqual(newest);
  expect(reportOf([...all].reverse()).examples).toEqual(newest);
  expect(
    reportOf([...all].sort((one, other) => (one.id.slice(-2) < other.id.slice(-2) ? 1 : -1))).examples,
  ).toEqual(newest);
});

test('counts agents, permissions and conditions beyond its bounds together', () => {
  const difference = new Difference({ fromMs, untilMs });
  for (let place = 0; place < 20_000; place += 1)
    difference.add(
      decided({
        id: `att_${place}`,
        agentId: `agent-${place}`,
        permissionKey: 'orders:read' as DecidedTwice['permissionKey'],
        other: block('condition_not_met' as DecisionReason, `condition-${place}`),
      }),
    );
  const report = difference.report();
  expect(report.by_agent.named).toHaveLength(100);
  expect(report.by_agent.others).toEqual({ count: 19_900, amount_usd: 29_850 });
  expect(report.by_permission.named).toEqual([
    { permission_key: 'orders:read', count: 20_000, amount_usd: 30_000 },
  ]);
  expect(report.different).toHaveLength(1001);
  expect(report.different[0]).toMatchObject({ condition: null, count: 19_000 });
});

test('a sum of money ends where it would be no exact number', () => {
  const large = decided({ amountMicroUsd: 1e15 as MicroUsd, other: block('domain_missing') });
  const [kind] = reportOf(Array.from({ length: 20 }, () => large)).different;
  expect(kind).toMatchObject({ count: 20, amount_usd: Number.MAX_SAFE_INTEGER / 1e6 });
});

test('a time outside of the report counts at its nearer end', () => {
  const early = decided({ timestampMs: (fromMs - 90 * dayMs) as UnixMillis });
  const late = decided({ timestampMs: (untilMs + 90 * dayMs) as UnixMillis });
  const { steps } = reportOf([early, late, early]).over_time;
  expect(steps.map(({ at, decisions }) => [at, decisions])).toEqual([
    [renderTime(fromMs), 2],
    [renderTime(untilMs), 1],
  ]);
});

const verdict = fc.record({
  outcome: fc.constantFrom<Outcome[]>(...outcomes),
  reason: fc.constantFrom(null, ...decisionReasons),
  condition: fc.constantFrom(null, 'one', 'two'),
});

test('every decision is counted once, whatever they are and however long the time', () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.record({
          id: fc.string(),
          timestampMs: fc.integer({ min: fromMs, max: untilMs }) as fc.Arbitrary<UnixMillis>,
          live: verdict,
          other: fc.oneof(verdict, fc.record({ undecided: fc.constantFrom('facts', 'withheld') })),
          amountMicroUsd: fc.option(fc.nat()) as fc.Arbitrary<MicroUsd | null>,
          agentId: fc.option(fc.string()),
          permissionKey: fc.constant(null),
        }),
      ),
      fc.integer({ min: 1, max: 36_500 * dayMs }),
      (all, lengthMs) => {
        const difference = new Difference({ fromMs, untilMs: (fromMs + lengthMs) as UnixMillis });
        for (const each of all) difference.add(each);
        const {
          decisions,
          same,
          different,
          undecided,
          by_agent: byAgent,
          over_time: time,
        } = difference.report();
        const sum = (counts: readonly { readonly count: number }[]) =>
          counts.reduce((total, { count }) => total + count, 0);
        expect(decisions).toBe(all.length);
        expect(same + sum(different) + sum(undecided)).toBe(all.length);
        expect(sum(byAgent.named) + byAgent.others.count).toBe(sum(different));
        expect(time.steps.reduce((total, step) => total + step.different, 0)).toBe(sum(different));
        expect(time.steps.length).toBeLessThanOrEqual(101);
      },
    ),
  );
});
