import { describe, expect, it } from 'vitest';
import { check, listChecks } from '../../../shared/decision/check-set.ts';
import { checkNames } from '../../../shared/model/decision.ts';

describe('listChecks', () => {
  it('lists the checks of a set in the order in which they run', () => {
    expect(listChecks(check.permission | check.passport | check.freshness)).toEqual([
      'passport',
      'freshness',
      'permission',
    ]);
  });

  it('lists all of them and none', () => {
    expect(listChecks(2 ** checkNames.length - 1)).toEqual(checkNames);
    expect(listChecks(0)).toEqual([]);
  });

  it('hands out the same frozen list each time', () => {
    expect(listChecks(check.passport)).toBe(listChecks(check.passport));
    expect(Object.isFrozen(listChecks(check.passport))).toBe(true);
  });
});
