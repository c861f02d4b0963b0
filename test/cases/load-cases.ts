import { expect } from 'vitest';
import { reasons } from '../../shared/decision/reasons.ts';
import { catalogCases } from './catalog.cases.ts';
import { complete, type DecisionCase, foreignIssuer, ownIssuer, type Want } from './decision-case.ts';
import { orderCases } from './order.cases.ts';
import { passportCases } from './passport.cases.ts';
import { requestCases } from './request.cases.ts';
import { trustCases } from './trust.cases.ts';

export const decisionCases: readonly DecisionCase[] = [
  ...passportCases,
  ...trustCases,
  ...requestCases,
  ...orderCases,
  ...catalogCases,
].map(complete);

/** What a runner must be able to arrange for a case besides the ordinary. */
type Need = 'clock' | 'state age' | 'compromised key';

function needsOf(decisionCase: DecisionCase): readonly Need[] {
  const needs: Need[] = [];
  if (decisionCase.sinceIssueMs !== null) needs.push('clock');
  if (decisionCase.stateAgeMs > 0) needs.push('state age');
  if (decisionCase.circumstances.includes('key compromised')) needs.push('compromised key');
  return needs;
}

/** The cases that a runner with these abilities can play; a runner says in its own file why it lacks the others. */
export const casesWithin = (abilities: readonly Need[]): readonly DecisionCase[] =>
  decisionCases.filter((each) => needsOf(each).every((need) => abilities.includes(need)));

/** The gate's constraints with the ids of the two issuers in their place. */
export function fillInIssuers(
  constraints: Readonly<Record<string, unknown>>,
  ids: { readonly own: string; readonly foreign: string },
): Readonly<Record<string, unknown>> {
  const trusted = constraints['trusted_issuers'];
  if (!Array.isArray(trusted)) return constraints;
  const byName: Readonly<Record<string, string>> = { [ownIssuer]: ids.own, [foreignIssuer]: ids.foreign };
  return { ...constraints, trusted_issuers: trusted.map((name: string) => byName[name] ?? name) };
}

/** The body of `POST /gates` without its name. */
export const gateBodyOf = (
  gate: NonNullable<DecisionCase['gate']>,
  issuers: { readonly own: string; readonly foreign: string },
): object => ({
  trust_level: gate.trust_level,
  constraints: fillInIssuers(gate.constraints, issuers),
  ...(gate.catalog === null ? {} : { catalog: gate.catalog }),
});

/** Holds the answer of `check` or `enforce` against what the case wants: the whole of it, but for the id of the record. */
export function expectAnswer(answer: Readonly<Record<string, unknown>>, want: Want): void {
  const { attestation_id: attestationId, ...rest } = answer;
  expect(attestationId).toMatch(/^att_[0-9a-z]{26}$/);
  expect(rest).toEqual({
    decision: want.decision,
    reason: want.reason,
    constraints_evaluated: want.constraints_evaluated,
    ...(want.reason === null ? {} : explanationOf(want, want.reason)),
  });
}

const explanationOf = (want: Want, reason: NonNullable<Want['reason']>) => ({
  detail: reasons[reason].detail,
  retry: {
    retryable: want.retryable ?? reasons[reason].retryable,
    after_ms: reasons[reason].afterMs,
  },
  ...(want.limit === undefined
    ? {}
    : { limit: want.limit, used: 0, requested: want.requested, reset_at: null }),
});
