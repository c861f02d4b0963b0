import { expect, it } from 'vitest';
import { LineBudget } from '../../control-plane/http/line-budget.ts';
import { receiptLines } from '../../control-plane/receipts/take-receipt.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { hourMs, type MonotonicMillis } from '../../shared/model/time.ts';

const [one, other] = ['acct_one', 'acct_other'] as AccountId[] as [AccountId, AccountId];

it('takes 20 lines an hour from each account, and says how many it left out', () => {
  let nowMs = 0;
  const lines = new LineBudget<AccountId>({ monotonic: () => nowMs as MonotonicMillis }, receiptLines);
  const taken = (account: AccountId, count: number) =>
    Array.from({ length: count }, () => lines.take(account));
  expect(taken(one, 20)).toEqual(Array(20).fill(0));
  expect(taken(one, 7)).toEqual(Array(7).fill(null));
  expect(taken(other, 1)).toEqual([0]);
  nowMs = hourMs - 1;
  expect(taken(one, 1)).toEqual([null]);
  nowMs = hourMs;
  expect(taken(one, 2)).toEqual([8, 0]);
});
