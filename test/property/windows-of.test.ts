import fc from 'fast-check';
import { expect, it } from 'vitest';
import { compileRateWindows, compileSpendWindows } from '../../shared/decision/compile-windows.ts';
import { moneyOf, requestsOf, windowsOf } from '../../shared/decision/windows-of.ts';
import type { IdDigest } from '../../shared/model/id-digest.ts';
import type { GateId, PassportId, WalletId } from '../../shared/model/ids.ts';
import type { MicroUsd } from '../../shared/model/money.ts';
import { walletShares } from '../../shared/model/wallet.ts';
import { runs } from '../support/base/runs.ts';

const amount = fc.option(fc.integer({ min: 0, max: 9 }));
const constraints = fc.record({
  per: fc.constantFrom('gate' as const, 'passport' as const),
  ...{ minute: amount, hour: amount, day: amount, daily: amount, monthly: amount },
});
type Given = typeof constraints extends fc.Arbitrary<infer T> ? T : never;
const wallet = fc.record({
  share: fc.constantFrom(...walletShares),
  limits: fc.record(
    { daily_usd: fc.nat(9), total_usd: fc.nat(9), requests_per_minute: fc.nat(9) },
    { requiredKeys: [] },
  ),
  setAside: fc.record({ daily_usd: fc.nat(12), total_usd: fc.nat(12) }, { requiredKeys: [] }),
});

const compiled = ({ per, minute, hour, day, daily, monthly }: Given, of: 'gate' | 'passport') => ({
  rateWindows: compileRateWindows(
    { per, requestsPerMinute: minute, requestsPerHour: hour, requestsPerDay: day },
    of,
  ),
  spendWindows: compileSpendWindows(
    {
      ...{ per, alertAt: 0.8, unpriced: 'block', perTransactionMicroUsd: null },
      dailyMicroUsd: daily as MicroUsd | null,
      monthlyMicroUsd: monthly as MicroUsd | null,
    },
    of,
  ),
});

/** By the contract, §6: in lines, without anything that the service computes. */
function expected(of: {
  gate: Given;
  passport: Given;
  path: readonly (typeof wallet extends fc.Arbitrary<infer T> ? T : never)[];
}) {
  const lines = (counter: string, limits: Readonly<Record<string, number | null>>) =>
    Object.entries(limits).flatMap(([window, limit]) =>
      limit === null ? [] : [`${counter} ${window} ${limit}`],
    );
  const part = of.gate.per === 'passport' ? ':pass_1' : '';
  const lane = (
    kind: string,
    name: keyof (typeof of.path)[number]['limits'],
    window: string,
    level: number,
  ) => {
    const { limits, setAside } = of.path[level] ?? { limits: {}, setAside: {} };
    const limit = limits[name];
    if (limit === undefined) return [];
    const below = of.path[level - 1];
    const own = below?.share === 'reserved' ? below.limits[name] : undefined;
    const aside = name === 'requests_per_minute' ? 0 : (setAside[name] ?? 0);
    return own === undefined
      ? [`${kind}:key${level}:pot ${window} ${Math.max(0, limit - aside)}`]
      : [`${kind}:key${level}:key${level - 1} ${window} ${Math.min(own, limit)}`];
  };
  const levels = [...of.path.keys()];
  return {
    money: [
      ...lines(`gate_spend:gate_1${part}`, { day: of.gate.daily, month: of.gate.monthly }),
      ...lines('passport_spend:pass_1', { day: of.passport.daily, month: of.passport.monthly }),
      ...levels.flatMap((level) => [
        ...lane('wallet_spend', 'daily_usd', 'day', level),
        ...lane('wallet_spend', 'total_usd', 'total', level),
      ]),
    ],
    requests: [
      ...lines(`gate_rate:gate_1${part}`, { minute: of.gate.minute, hour: of.gate.hour, day: of.gate.day }),
      ...lines('passport_rate:pass_1', {
        ...{ minute: of.passport.minute, hour: of.passport.hour, day: of.passport.day },
      }),
      ...levels.flatMap((level) => lane('wallet_rate', 'requests_per_minute', 'minute', level)),
    ],
  };
}

it('are those of the gate, the passport and its wallets that the contract names, in this order', () => {
  fc.assert(
    fc.property(constraints, constraints, fc.array(wallet, { maxLength: 3 }), (gate, passport, path) => {
      const wallets = path.map((each, level) => ({
        ...each,
        walletId: `wal_${level}` as WalletId,
        key: `key${level}` as IdDigest,
      }));
      const drawn = windowsOf({
        gate: { gateId: 'gate_1' as GateId, ...compiled(gate, 'gate') },
        passport: { passportId: 'pass_1' as PassportId, ...compiled(passport, 'passport') },
        wallets,
      });
      const lines = (windows: ReturnType<typeof moneyOf>) =>
        windows.map(({ counter, window, limit }) => `${counter} ${window} ${limit}`);
      expect({ money: lines(moneyOf(drawn)), requests: lines(requestsOf(drawn)) }).toEqual(
        expected({ gate, passport, path }),
      );
    }),
    { numRuns: runs({ short: 300, long: 20_000 }) },
  );
});
