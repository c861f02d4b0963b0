import { expect } from 'vitest';
import { reasons } from '../../../shared/decision/reasons.ts';
import type { UnixMillis } from '../../../shared/model/time.ts';
import { windowAt } from '../../../shared/quota/window.ts';
import { type DecisionCase, foreignIssuer, ownIssuer, type Want } from './decision-case.ts';
import { agentJwk } from './make-proof.ts';
import { decisionCases } from './read-cases.ts';

/** What a runner must be able to arrange for a case besides the ordinary. */
type Need = 'clock' | 'state age' | 'control plane away';

function needsOf(decisionCase: DecisionCase): readonly Need[] {
  const needs: Need[] = [];
  if (decisionCase.sinceIssueMs !== null) needs.push('clock');
  if (decisionCase.stateAgeMs > 0) needs.push('state age');
  if (decisionCase.circumstances.includes('control plane away')) needs.push('control plane away');
  return needs;
}

/**
 * The cases that a runner with these abilities can play; a runner says in its own file why it lacks the
 * others.
 */
export const casesWithin = (abilities: readonly Need[]): readonly DecisionCase[] =>
  decisionCases.filter((each) => needsOf(each).every((need) => abilities.includes(need)));

/** The gate's constraints with the ids of the two issuers in their place. */
function fillInIssuers(
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

/** The body of `POST /passports` without its agent. */
export const passportBodyOf = (
  passport: DecisionCase['passport'],
  issuers: { readonly own: string; readonly foreign: string },
): object => ({
  issuer_id: passport.issued_by === 'foreign' ? issuers.foreign : issuers.own,
  permissions: passport.permissions,
  trust_tier: passport.trust_tier,
  constraints: passport.constraints,
  public_key: agentJwk,
  expires_in: '1h',
});

/**
 * Holds the answer of `check` or `enforce` against what the case wants: the whole of it, but for ids, and for
 * times only as far as they must agree with each other.
 */
export function expectAnswer(answer: Readonly<Record<string, unknown>>, want: Want): void {
  const { attestation_id, approval_id, approval_url, expires_at, reset_at, retry, ...others } = answer;
  const { request_redacted, ...rest } = others;
  expect(rest).toEqual({
    decision: want.decision,
    reason: want.reason,
    constraints_evaluated: want.constraints_evaluated,
    ...(want.decision === 'BLOCK' && want.reason !== null ? { detail: reasons[want.reason].detail } : {}),
    ...(want.condition === undefined ? {} : { condition: want.condition }),
    ...(want.detail === undefined ? {} : { detail: want.detail }),
    ...(want.limit === undefined
      ? {}
      : { limit: want.limit, used: want.used ?? 0, requested: want.requested }),
    ...(want.pii === undefined ? {} : { pii: want.pii }),
    ...(want.request_redacted === undefined ? {} : { redactions: want.pii }),
  });
  expect(withoutApproval(request_redacted)).toEqual(want.request_redacted);
  const isSuspended = want.decision === 'SUSPEND';
  expect(attestation_id).toEqual(isSuspended ? null : expect.stringMatching(/^att_[0-9a-z]{26}$/));
  expect(approval_id).toEqual(isSuspended ? expect.stringMatching(/^appr_[0-9a-z]{26}$/) : undefined);
  expect(String(approval_url)).toMatch(
    isSuspended ? new RegExp(`/console/approvals/${approval_id}$`) : 'undefined',
  );
  expect(expires_at).toEqual(isSuspended ? expect.stringMatching(/^\d{4}-.*T.*\.\d{3}Z$/) : undefined);
  expectRetry({ retry, reset_at }, want);
}

/** The copy is of the request as it was sent, with the id that only the runner knows. */
function withoutApproval(request: unknown): unknown {
  if (typeof request !== 'object' || request === null) return request;
  const { approval_id: _id, ...rest } = request as Readonly<Record<string, unknown>>;
  return rest;
}

function expectRetry(
  { retry, reset_at: resetAt }: { readonly retry: unknown; readonly reset_at: unknown },
  { decision, reason, retryable, limit, resets }: Want,
): void {
  if (decision !== 'BLOCK' || reason === null) {
    expect({ retry, resetAt }).toEqual({ retry: undefined, resetAt: undefined });
    return;
  }
  if (resets === undefined) {
    const isLimit = limit !== undefined;
    expect(retry).toEqual({
      retryable: retryable ?? (isLimit ? false : reasons[reason].retryable),
      after_ms: isLimit ? null : reasons[reason].afterMs,
    });
    expect(resetAt).toBe(isLimit ? null : undefined);
    return;
  }
  expect(retry).toEqual({ retryable: true, after_ms: expect.any(Number) });
  const resetAtMs = Date.parse(String(resetAt));
  const afterMs = (retry as { after_ms: number }).after_ms;
  // In which window the decision was made follows from the two; it must be the one that ends at reset_at.
  const window = windowAt(resets, (resetAtMs - Math.max(afterMs, 1)) as UnixMillis);
  expect(window.endsAtMs).toBe(resetAtMs);
}
