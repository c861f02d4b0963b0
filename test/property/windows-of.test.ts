import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { KnownThings } from '../../control-plane/attestations/judge-records.ts';
import { findLackingHold } from '../../control-plane/decisions/judge-settlements.ts';
import { toldWallets } from '../../control-plane/quota/find-lanes.ts';
import { type HeldLeases, judgeTakes, type Take } from '../../control-plane/quota/judge-takes.ts';
import { compileRateWindows, compileSpendWindows } from '../../shared/decision/compile-windows.ts';
import {
  type DrawnWindow,
  moneyOf,
  requestsOf,
  totalOf,
  windowsOf,
} from '../../shared/decision/windows-of.ts';
import type { IdDigest } from '../../shared/model/id-digest.ts';
import type { AccountId, GateId, PassportId, SidecarId, WalletId } from '../../shared/model/ids.ts';
import type { MicroUsd } from '../../shared/model/money.ts';
import type { StandingApprovalTerms } from '../../shared/model/standing-approval.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { walletShares } from '../../shared/model/wallet.ts';
import { counterKey } from '../../shared/quota/counter.ts';
import { windowAt } from '../../shared/quota/window.ts';
import { counterOfLease } from '../../shared/wire/sync/lease-call.ts';
import type { SuspendSettlement } from '../../shared/wire/sync/settlement.ts';
import type { HeldWindow } from '../../sidecar/quota/held-window.ts';
import { WalletPaths } from '../../sidecar/quota/wallet-paths.ts';
import { WindowTable } from '../../sidecar/quota/window-table.ts';
import { runs } from '../support/base/runs.ts';

const amount = fc.option(fc.integer({ min: 0, max: 9 }));
const constraints = fc.record({
  per: fc.constantFrom('gate' as const, 'passport' as const, 'user' as const),
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
  user: IdDigest | null;
  path: readonly (typeof wallet extends fc.Arbitrary<infer T> ? T : never)[];
}) {
  const lines = (counter: string, limits: Readonly<Record<string, number | null>>) =>
    Object.entries(limits).flatMap(([window, limit]) =>
      limit === null ? [] : [`${counter} ${window} ${limit}`],
    );
  const user = of.user === null ? ':pass_1' : `:user_${of.user}`;
  const part = { gate: '', passport: ':pass_1', user }[of.gate.per];
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

const user = fc.option(fc.constant('abcdefghijklmnopqrstuv' as IdDigest));

/** All things that a PERMIT draws on. */
const situation = fc
  .record({ gate: constraints, passport: constraints, user, path: fc.array(wallet, { maxLength: 3 }) })
  .map((given) => ({
    given,
    gate: { gateId: 'gate_1' as GateId, ...compiled(given.gate, 'gate') },
    passport: {
      ...{ passportId: 'pass_1' as PassportId, userKey: given.user },
      ...compiled(given.passport, 'passport'),
    },
    wallets: given.path.map((each, level) => ({
      ...{ ...each, walletId: `wal_${level}` as WalletId, key: `key${level}` as IdDigest },
      ...{ accountId, mode: 'live' as const, status: 'active' as const, changedAtMs: longAgoMs },
    })),
  }));
type Situation = typeof situation extends fc.Arbitrary<infer T> ? T : never;
const accountId = 'acct_1' as AccountId;
const sidecarId = 'side_1' as SidecarId;
const longAgoMs = 0 as UnixMillis;
const nowMs = Date.UTC(2026, 5, 15, 12) as UnixMillis;

const inAll = (holds: (of: Situation) => void) =>
  fc.assert(fc.property(situation, holds), { numRuns: runs({ short: 300, long: 20_000 }) });
const linesOf = (windows: readonly DrawnWindow[]) =>
  windows.map(({ counter, window, limit }) => `${counter} ${window} ${limit}`);

it('are those of the gate, the passport and its wallets that the contract names, in this order', () => {
  inAll(({ given, ...of }) => {
    const drawn = windowsOf(of);
    expect({ money: linesOf(moneyOf(drawn)), requests: linesOf(requestsOf(drawn)) }).toEqual(expected(given));
  });
});

it('are those that a sidecar takes from, and those that are asked of it', () => {
  inAll(({ gate, passport, wallets }) => {
    const drawn = windowsOf({ gate, passport, wallets });
    const view = heldBySidecar({ gate, passport, wallets });
    expect(heldLines(view.spendWindows)).toEqual(linesOf(moneyOf(drawn)));
    expect(heldLines(view.rateWindows)).toEqual(linesOf(requestsOf(drawn)));
    expect(view.heldWallet?.levels.map(({ spend, rate }) => [heldLines(spend), heldLines(rate)])).toEqual(
      drawn.levels.map(({ spend, rate }) => [linesOf(spend), linesOf(rate)]),
    );
    expect(heldLines(view.standingApprovals.map(({ held }) => held))).toEqual(
      linesOf([totalOf(standing, gate.gateId)]),
    );

    const ofOthers = heldBySidecar({ gate, passport, wallets }, 'acct_2' as AccountId);
    expect(ofOthers.spendWindows.map(({ name }) => name)).toEqual(view.spendWindows.map(({ name }) => name));

    // What it names of its passport and the wallets is needed; its own gate is its own matter.
    const held = [...view.spendWindows, ...view.rateWindows];
    const leases: HeldLeases = new Map(held.map((each, place) => [place, leaseOf(each, place)]));
    const isTaken = (took: readonly number[]) =>
      judgeTakes(leases, [takeOf({ passport, wallets }, took)], 'refuse')[0] === null;
    const places = [...leases.keys()];
    expect(isTaken(places)).toBe(true);
    for (const [place, { name }] of held.entries())
      expect(isTaken(places.filter((each) => each !== place))).toBe(name.gate_id !== null);

    const money = view.spendWindows.map(({ name }) => ({ ...name, units: 1, starts_at_ms: longAgoMs }));
    const isHeld = (windows: SuspendSettlement['held']) =>
      findLackingHold(
        {
          held: windows,
          amount_micro_usd: 1 as MicroUsd,
          passport_id: passport.passportId,
        } as SuspendSettlement,
        knownOf({ passport, wallets }),
      ) === null;
    expect(isHeld(money)).toBe(true);
    for (const each of money)
      expect(isHeld(money.filter((other) => other !== each))).toBe(each.gate_id !== null);
  });
});

const standing = {
  ...{ standingApprovalId: 'sappr_1', passportId: 'pass_1', owner: null, permissionKey: 'orders:create' },
  ...{ eachMicroUsd: 1, totalMicroUsd: 7, expiresAtMs: nowMs },
} as StandingApprovalTerms;

function heldBySidecar({ gate, passport, wallets }: Omit<Situation, 'given'>, toldTo = accountId) {
  const paths = new WalletPaths({
    ...{ walletChanges: { count: 0, hasChanged: () => false }, isWalletFrozen: () => false, asOfMs: 0 },
  });
  paths.set(passport.passportId, toldWallets(wallets, toldTo), paths.mark(0));
  return new WindowTable(100, paths).viewOf(
    { ...gate, accountId, standingApprovals: [standing] },
    { ...passport, accountId, owner: null, tokenHash: 'token' },
    ...([0, true] as const),
  );
}

const heldLines = (held: readonly HeldWindow[]) =>
  held.map(({ name, lease }) => `${counterKey(counterOfLease(name))} ${name.window} ${lease.limit}`);

const leaseOf = ({ name }: HeldWindow, leaseId: number) => ({
  ...{ leaseId, sidecarId, holder: 'holder', madeAtMs: longAgoMs, unused: 1_000 },
  ...{ counter: counterKey(counterOfLease(name)), window: name.window, standingApproval: null },
  ...{ startsAtMs: windowAt(name.window, nowMs).startsAtMs, endsAtMs: windowAt(name.window, nowMs).endsAtMs },
  ...{ isMoney: name.kind.endsWith('spend'), gateId: name.gate_id },
  passportId: name.wallet === undefined ? name.passport_id : null,
  wallet: name.wallet === undefined ? null : { accountId },
});

const takeOf = (
  { passport, wallets }: Pick<Situation, 'passport' | 'wallets'>,
  took: readonly number[],
): Take => ({
  record: {
    ...{ source: sidecarId, sourceAccount: accountId, gateId: 'gate_1' as GateId, asserted: false },
    ...{ passportId: passport.passportId, permissionKey: null, amountMicroUsd: 1 as MicroUsd },
    ...{ timestampMs: nowMs, walletPath: wallets.map(({ key }) => key) },
  },
  took,
  passportOwner: { accountId },
  ownWindows: windowsOf({ gate: null, passport, wallets }),
  walletPath: { wallets, sinceMs: longAgoMs, cameMs: longAgoMs },
  ...{ holder: null, isPaid: false, needsApproval: false },
});

const knownOf = ({ passport, wallets }: Pick<Situation, 'passport' | 'wallets'>) =>
  ({
    passports: new Map([[passport.passportId, { ownWindows: windowsOf({ gate: null, passport, wallets }) }]]),
  }) as unknown as KnownThings;
