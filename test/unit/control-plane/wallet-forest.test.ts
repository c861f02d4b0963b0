import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type ForestWallet, WalletForest } from '../../../cli/apply/wallet-forest.ts';
import { walletDepthMax } from '../../../shared/model/wallet.ts';

/** The rules of trees of wallets as `agent-trust apply` knows them (contract §6). */
const keys = ['a', 'b', 'c', 'd', 'e', 'f', 'g'] as const;
const key = fc.constantFrom(...keys);
const units = fc.option(fc.constantFrom(1, 2, 3, 1e15), { nil: undefined });
const wallet = fc.record({
  parent: fc.option(key, { nil: null, freq: 1 }),
  share: fc.constantFrom('pot', 'reserved'),
  limits: fc.record({ daily_usd: units, requests_per_day: units }),
}) as fc.Arbitrary<ForestWallet>;

const change = fc.record({ key, wallet: fc.option(wallet, { nil: null, freq: 8 }) });

it('takes whatever comes only where no wallet is then below itself, too deep, or short of what is reserved', () => {
  let taken = 0;
  fc.assert(
    fc.property(fc.array(change, { minLength: 20, maxLength: 40 }), (changes) => {
      const forest = new WalletForest();
      for (const { key: at, wallet: wanted } of changes) {
        if (wanted === null && forest.childrenOf(at).length === 0) forest.delete(at);
        const before = keys.map((each) => forest.get(each));
        if (wanted === null || !forest.tryPut(at, wanted)) {
          expect(keys.map((each) => forest.get(each))).toEqual(before);
          continue;
        }
        taken++;
        for (const each of keys) {
          if (forest.get(each) === null) continue;
          expect(forest.pathOf(each)?.length ?? Number.POSITIVE_INFINITY).toBeLessThanOrEqual(walletDepthMax);
          expect(forest.overbookedOf(each)).toBe(null);
          for (const name of ['daily_usd', 'requests_per_day'] as const) expectRoom(forest, each, name);
        }
      }
    }),
  );
  expect(taken).toBeGreaterThan(100);
});

/** Counted anew, from the wallets themselves. */
function expectRoom(forest: WalletForest, of: string, name: 'daily_usd' | 'requests_per_day'): void {
  const reserved = keys
    .map((each) => forest.get(each))
    .filter((each) => each?.parent === of && each.share === 'reserved')
    .reduce((sum, each) => sum + BigInt(each?.limits[name] ?? 0), 0n);
  const limit = forest.get(of)?.limits[name];
  if (limit !== undefined) expect(reserved <= BigInt(limit), `${of} ${name}`).toBe(true);
}

it('says which limit is passed, and of thousands of children at once', () => {
  const forest = new WalletForest();
  forest.put('root', { parent: null, share: 'pot', limits: { daily_usd: 10_000, requests_per_day: 5 } });
  for (let n = 0; n < 10_000; n++) {
    const child = { parent: 'root', share: 'reserved', limits: { daily_usd: 1 } } as const;
    expect(forest.tryPut(`child ${n}`, child)).toBe(true);
  }
  const more = { parent: 'root', share: 'reserved', limits: { daily_usd: 1 } } as const;
  expect(forest.tryPut('more', more)).toBe(false);
  expect(forest.get('more')).toBe(null);
  forest.put('more', more);
  expect(forest.overbookedOf('root')).toBe('daily_usd');
  forest.put('more', { ...more, share: 'pot' });
  expect(forest.overbookedOf('root')).toBe(null);
  forest.put('root', { parent: null, share: 'pot', limits: { daily_usd: 9_999 } });
  expect(forest.overbookedOf('root')).toBe('daily_usd');
});
