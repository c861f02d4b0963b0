import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { decide } from '../../shared/decision/decide.ts';
import { runs } from '../support/base/runs.ts';
import { type Expected, oracle } from './decide-oracle.ts';
import { factsOf, nowMs, policyOf, quotaOf, requestOf, situation } from './decide-situation.ts';

it('decide equals a slow oracle read off the decisions page, and gives every answer on the way', () => {
  const seen = new Set<string>();
  const property = fc.property(situation, (each) => {
    const expected = oracle(each);
    const decision = decide(policyOf(each), factsOf(each), requestOf(each), quotaOf(each), nowMs);
    seen.add(kindOf(expected));
    // A million comparisons by expect would take longer than everything else.
    if (!isDeepStrictEqual(decision, expected)) expect(decision).toEqual(expected);
  });
  // The rarest answer comes in one situation of 370: once in 800 times it is not among the first 2,500.
  for (let round = 0; round < 10 && !kinds.every((kind) => seen.has(kind)); round++)
    fc.assert(property, { numRuns: runs({ short: 2_500, long: 1_000_000 }) });
  // The control: an oracle that never gets anywhere would agree with anything.
  expect([...seen].sort()).toEqual([...kinds].sort());
});

/** What is told apart when it is said that every answer was given. */
function kindOf({ outcome, reason, unknown, limitMiss, charge, isRedacted, pii }: Expected): string {
  if (unknown !== null) return `unknown ${unknown}`;
  if (limitMiss !== null) return `${reason} ${limitMiss.resetAtMs === null ? 'for ever' : 'for a while'}`;
  if (outcome === 'SUSPEND') return charge === null ? 'SUSPEND again' : 'SUSPEND';
  if (outcome === 'BLOCK') return String(reason);
  return isRedacted ? 'PERMIT redacted' : pii.length > 0 ? 'PERMIT and note' : 'PERMIT';
}

const kinds: readonly string[] = [
  ...['PERMIT', 'PERMIT and note', 'PERMIT redacted', 'SUSPEND', 'SUSPEND again', 'unknown proof'],
  ...['unknown leases', 'unknown approval', 'spend_limit_exceeded for ever'],
  ...['spend_limit_exceeded for a while', 'rate_limit_exceeded for ever', 'rate_limit_exceeded for a while'],
  ...['passport_malformed', 'passport_signature_invalid', 'passport_unknown_key', 'proof_missing'],
  ...['proof_invalid', 'proof_replayed', 'quota_unavailable', 'passport_not_yet_valid', 'passport_expired'],
  ...['passport_revoked', 'passport_suspended', 'mode_mismatch', 'trust_level_insufficient', 'state_stale'],
  ...['issuer_untrusted', 'permission_missing', 'permission_not_granted', 'permission_not_in_catalog'],
  ...['approval_mismatch', 'approval_denied', 'approval_expired', 'approval_used', 'approval_required'],
  ...['domain_missing', 'domain_not_allowed', 'pii_detected', 'currency_unsupported', 'amount_missing'],
  ...['condition_not_met', 'condition_error'],
];
