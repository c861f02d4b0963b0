import { describe, expect, it } from 'vitest';
import { checkNames, decisionReasons } from '../../../shared/model/decision.ts';
import { decisionCases } from '../../support/cases/read-cases.ts';

describe('the cases', () => {
  it('have names of their own', () => {
    const names = decisionCases.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
  });

  /**
   * Keys of other issuers grow too old where a clock can be moved (test/api/federation.test.ts). The other
   * one is given by the store of approvals.
   */
  const givenElsewhere = [
    'issuer_keys_stale',
    'approvals_pending_exceeded',
    // A wallet is known to its host alone (test/api/wallets.test.ts).
    'wallet_limit_exceeded',
    'wallet_frozen',
  ];

  it('give every reason that there is', () => {
    const given = new Set(decisionCases.map(({ want }) => want.reason));
    const missing = decisionReasons.filter((reason) => !given.has(reason));
    expect(missing).toEqual(givenElsewhere);
  });

  it('list checks in the order in which they run', () => {
    for (const { want } of decisionCases) {
      expect(want.constraints_evaluated).toEqual(
        checkNames.filter((name) => want.constraints_evaluated.includes(name)),
      );
    }
  });
});
