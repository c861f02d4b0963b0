import { expect, it } from 'vitest';
import { advisoryLockSeeds, advisoryLocks, lockOrder } from '../../control-plane/storage/locks.ts';

it('places each advisory lock in the order, and nothing twice', () => {
  expect(lockOrder).toEqual(
    expect.arrayContaining([...Object.keys(advisoryLocks), ...Object.keys(advisoryLockSeeds)]),
  );
  expect(new Set(lockOrder).size).toBe(lockOrder.length);
});
