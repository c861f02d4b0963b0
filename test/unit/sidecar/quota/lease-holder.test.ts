import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Charge } from '../../../../shared/decision/facts.ts';
import { must } from '../../../../shared/errors/assert.ts';
import type { AccountId, GateId, PassportId } from '../../../../shared/model/ids.ts';
import { limits } from '../../../../shared/model/limits.ts';
import type { MicroUsd } from '../../../../shared/model/money.ts';
import {
  hourMs,
  type MonotonicMillis,
  minuteMs,
  secondMs,
  type UnixMillis,
} from '../../../../shared/model/time.ts';
import type { CalendarWindowName } from '../../../../shared/quota/window.ts';
import type { LimitKind, WindowLimit } from '../../../../shared/quota/window-limit.ts';
import { silentLogger } from '../../../../shared/runtime/logger.ts';
import { systemRandom } from '../../../../shared/runtime/random.ts';
import { type HeldView, takenAtMs } from '../../../../sidecar/quota/held-view.ts';
import type { HeldWindow } from '../../../../sidecar/quota/held-window.ts';
import { LeaseHolder } from '../../../../sidecar/quota/lease-holder.ts';
import { quotaLimits } from '../../../../sidecar/quota/limits.ts';
import type { Reservation } from '../../../../sidecar/quota/reservation.ts';
import type { AskOutcome } from '../../../../sidecar/quota/wait-queue.ts';
import type { LimitedGate, LimitedPassport } from '../../../../sidecar/quota/window-table.ts';
import { fakedClock, fakedTimers } from '../../../support/base/faked-timers.ts';
import { ModelLedger } from '../../../support/data/model-ledger.ts';

/** Twenty seconds into a minute: no window ends unless a test waits for it. */
const startMs = 1_800_000_000_000 + 20 * secondMs;

let ledger: ModelLedger;
let holder: LeaseHolder;
/** Of the spool of the holder. */
let spool: { epoch: string; failedTurns: number };
beforeEach(() => {
  spool = { epoch: 'e'.repeat(32), failedTurns: 0 };
  vi.useFakeTimers({ toFake: [...fakedTimers], now: startMs });
  ledger = new ModelLedger(fakedClock);
  holder = newHolder();
});
afterEach(async () => {
  ledger.before = () => undefined;
  ledger.afterwards = () => undefined;
  const stopping = holder.stop();
  await vi.advanceTimersByTimeAsync(quotaLimits.leaseStopMsMax);
  await stopping;
  expect(vi.getTimerCount(), 'timers that are left').toBe(0);
  vi.useRealTimers();
});

const newHolder = (windowsMax?: number): LeaseHolder =>
  new LeaseHolder({
    client: ledger,
    epoch: () => spool.epoch,
    failedTurns: () => spool.failedTurns,
    clock: fakedClock,
    random: systemRandom(),
    logger: silentLogger,
    ...(windowsMax !== undefined && { windowsMax }),
  });

const limitOf = (
  kind: LimitKind,
  window: CalendarWindowName,
  limit: number,
  per: 'gate' | 'passport' = 'gate',
): WindowLimit => {
  ledger.limits.set(`${kind} ${window}`, limit);
  return { kind, window, limit, per };
};

const accountId = 'acct_1' as AccountId;
const gateWith = (...windows: readonly WindowLimit[]): LimitedGate => ({
  gateId: 'gate_1' as GateId,
  accountId,
  rateWindows: windows.filter(({ kind }) => kind.endsWith('rate')),
  spendWindows: windows.filter(({ kind }) => kind.endsWith('spend')),
  standingApprovals: [],
});
const passportWith = (name: string, ...windows: readonly WindowLimit[]): LimitedPassport => ({
  passportId: `pass_${name}` as PassportId,
  accountId,
  owner: null,
  tokenHash: name.repeat(8),
  rateWindows: windows.filter(({ kind }) => kind.endsWith('rate')),
  spendWindows: windows.filter(({ kind }) => kind.endsWith('spend')),
});
const unlimited = passportWith('a');

const oneRequest: Charge = { moneyMicroUsd: 0 as MicroUsd, requests: 1 };
const money = (units: number): Charge => ({ moneyMicroUsd: units as MicroUsd, requests: 0 });

/** As late as an answer may come. */
const inTime = () => (performance.now() + limits.quotaWaitMsMax) as MonotonicMillis;

/** Takes the charge if it can, waits if it must, and collects the outcomes. */
function request(gate: LimitedGate | null, charge: Charge, of: LimitedPassport = unlimited) {
  const heard: (AskOutcome['kind'] | 'taken at once')[] = [];
  const isThere = (view: ReturnType<LeaseHolder['view']>) =>
    view.spend.every(({ available }) => available >= charge.moneyMicroUsd) &&
    view.rate.every(({ available }) => available >= charge.requests);
  const view = holder.view(gate, of);
  if (isThere(view)) {
    holder.take(view, charge);
    heard.push('taken at once');
  } else {
    holder.ask(view, charge, inTime(), (outcome) => {
      heard.push(outcome.kind);
      if (outcome.kind === 'granted') holder.take(holder.view(gate, of), charge);
    });
  }
  return heard;
}

/**
 * Ends the event-loop turn and answers calls. Callbacks scheduled while a faked clock ticks run a millisecond
 * later.
 */
const turn = () => vi.advanceTimersByTimeAsync(2);

describe('a request', () => {
  it('leases missing units of all its windows with one call', async () => {
    const gate = gateWith(
      limitOf('gate_rate', 'minute', 10),
      limitOf('gate_rate', 'day', 100),
      limitOf('gate_spend', 'day', 5_000),
    );
    const of = passportWith('b', limitOf('passport_spend', 'month', 9_000, 'passport'));
    const heard = request(gate, { moneyMicroUsd: 700 as MicroUsd, requests: 1 }, of);
    expect(heard).toEqual([]);
    await turn();
    expect(heard).toEqual(['granted']);
    expect(ledger.calls).toHaveLength(1);
    expect(ledger.calls[0]?.asks).toEqual([
      {
        ...{ kind: 'gate_spend', gate_id: 'gate_1', passport_id: null, token_hash: null, window: 'day' },
        ...{ units_min: 700, units_needed: 700, units_ahead: 0 },
      },
      {
        ...{ kind: 'passport_spend', gate_id: null, passport_id: 'pass_b', token_hash: 'b'.repeat(8) },
        ...{ window: 'month', units_min: 700, units_needed: 700, units_ahead: 0 },
      },
      expect.objectContaining({ kind: 'gate_rate', window: 'minute', units_needed: 1 }),
      expect.objectContaining({ kind: 'gate_rate', window: 'day', units_needed: 1 }),
    ]);
    expect(holder.view(gate, of).spend).toMatchObject([
      { limit: 5_000, available: 0, used: 700, isFinal: false },
      { limit: 9_000, available: 0, used: 700, isFinal: false },
    ]);
  });

  it('draws on the same window at the next version of the gate, with the new limit', async () => {
    request(gateWith(limitOf('gate_rate', 'minute', 10)), oneRequest);
    await turn();
    const next = gateWith(limitOf('gate_rate', 'minute', 20));
    expect(holder.view(next, unlimited).rate).toMatchObject([{ limit: 20, used: 1 }]);
  });

  it('takes nothing and throws if one window has too few units', async () => {
    const gate = gateWith(limitOf('gate_rate', 'minute', 10), limitOf('gate_spend', 'day', 100));
    request(gate, { moneyMicroUsd: 10 as MicroUsd, requests: 1 });
    await turn();
    const back = holder.view(gate, unlimited);
    expect(() => holder.take(back, oneRequest)).toThrow('a charge takes only held requests');
  });
});

describe('waiting requests', () => {
  it('share a call if they come in one event-loop turn', async () => {
    const gate = gateWith(limitOf('gate_rate', 'minute', 1_000));
    const heard = Array.from({ length: 50 }, () => request(gate, oneRequest));
    await turn();
    expect(heard).toEqual(Array.from({ length: 50 }, () => ['granted']));
    expect(ledger.calls).toHaveLength(1);
    expect(ledger.calls[0]?.asks).toMatchObject([{ units_min: 1, units_needed: 50 }]);
  });

  it('are gathered for the next call while one is in flight', async () => {
    const gate = gateWith(limitOf('gate_rate', 'minute', 1_000));
    ledger.before = () => new Promise((resolve) => setTimeout(resolve, 20));
    const first = request(gate, oneRequest);
    await vi.advanceTimersByTimeAsync(5);
    const others = [request(gate, oneRequest), request(gate, oneRequest)];
    await vi.advanceTimersByTimeAsync(16);
    expect([first, ...others]).toEqual([['granted'], [], []]);
    await vi.advanceTimersByTimeAsync(25);
    expect(others).toEqual([['granted'], ['granted']]);
    expect(ledger.calls.map(({ seq }) => seq)).toEqual([1, 2]);
  });

  it('are refused only if too little is left for them: [60, 10] with 55 left', async () => {
    const gate = gateWith(limitOf('gate_spend', 'day', 100));
    request(gate, money(45));
    await turn();
    const heard = [request(gate, money(60)), request(gate, money(10))];
    await turn();
    expect(heard).toEqual([['refused'], ['granted']]);
    // Units leased for the refused request go back.
    expect(holder.view(gate, unlimited).spend).toMatchObject([{ available: 0, used: 55 }]);
    expect(ledger.leasedOf({ kind: 'gate_spend', window: 'day' })).toBe(55);
  });

  it('get a final view with the units used when refused, and others do not', async () => {
    const gate = gateWith(limitOf('gate_spend', 'day', 100));
    request(gate, money(90));
    await turn();
    const outcomes: AskOutcome[] = [];
    holder.ask(holder.view(gate, unlimited), money(20), inTime(), (outcome) => outcomes.push(outcome));
    await turn();
    const [outcome] = outcomes;
    if (outcome?.kind !== 'refused') throw new Error('it was not refused');
    const final = holder.view(gate, unlimited, outcome.shortage).spend;
    expect(final).toMatchObject([{ limit: 100, available: 0, used: 90, isFinal: true }]);
    expect(final[0]?.endsAtMs).toBe(Math.ceil(startMs / (24 * 3_600_000)) * 24 * 3_600_000);
    expect(holder.view(gate, unlimited).spend).toMatchObject([{ isFinal: false }]);
  });

  it('are refused only after units leased for them in vain are returned', async () => {
    const gate = gateWith(limitOf('gate_rate', 'minute', 3), limitOf('gate_spend', 'day', 100));
    const rateLeased: number[] = [];
    request(gate, { moneyMicroUsd: 90 as MicroUsd, requests: 1 });
    await turn();
    const tooMuch: Charge = { moneyMicroUsd: 20 as MicroUsd, requests: 1 };
    holder.ask(holder.view(gate, unlimited), tooMuch, inTime(), ({ kind }) => {
      expect(kind).toBe('refused');
      rateLeased.push(ledger.leasedOf({ kind: 'gate_rate', window: 'minute' }));
    });
    await vi.advanceTimersByTimeAsync(10);
    expect(rateLeased).toEqual([1]);
  });

  it('are refused in time even if the return of units gets no answer', async () => {
    const gate = gateWith(limitOf('gate_rate', 'minute', 3), limitOf('gate_spend', 'day', 100));
    ledger.before = ({ returns }) => {
      if (returns.length > 0) throw new Error('away');
    };
    request(gate, money(90));
    await turn();
    const heard = request(gate, { moneyMicroUsd: 20 as MicroUsd, requests: 1 });
    await vi.advanceTimersByTimeAsync(limits.quotaWaitMsMax + 20);
    expect(heard).toEqual(['refused']);
  });

  it('lease from other windows for one request only while a flood meets a dry window', async () => {
    const gate = gateWith(limitOf('gate_rate', 'minute', 1), limitOf('gate_spend', 'day', 1_000));
    const charge: Charge = { moneyMicroUsd: 50 as MicroUsd, requests: 1 };
    request(gate, charge);
    await vi.advanceTimersByTimeAsync(secondMs);
    const heard = [];
    for (let nowMs = 0; nowMs < 200; nowMs++) {
      for (let each = 0; each < 5; each++) heard.push(request(gate, charge));
      await vi.advanceTimersByTimeAsync(1);
      // The first ones asked before the window was known to be dry; their units go back at once.
      if (nowMs > 10)
        expect(ledger.leasedOf({ kind: 'gate_spend', window: 'day' })).toBeLessThanOrEqual(2 * 50);
    }
    await vi.advanceTimersByTimeAsync(quotaLimits.leaseDryPauseMs);
    expect(new Set(heard.flat())).toEqual(new Set(['refused']));
  });

  it('ask again for a dry window and find units that others returned', async () => {
    const gate = gateWith(limitOf('gate_rate', 'minute', 1));
    const [key] = [`gate_rate minute gate_1 null ${1_800_000_000_000}`];
    ledger.leased.set(key, 1);
    const first = request(gate, oneRequest);
    await turn();
    ledger.leased.set(key, 0);
    const second = request(gate, oneRequest);
    await vi.advanceTimersByTimeAsync(quotaLimits.leaseDryPauseMs);
    expect([first, second]).toEqual([['refused'], ['granted']]);
  });

  it('share few calls while a window is dry', async () => {
    const gate = gateWith(limitOf('gate_rate', 'minute', 0));
    const heard = [];
    for (let nowMs = 0; nowMs < secondMs; nowMs++) {
      heard.push(request(gate, oneRequest));
      await vi.advanceTimersByTimeAsync(1);
    }
    await vi.advanceTimersByTimeAsync(quotaLimits.leaseDryPauseMs);
    expect(heard.every(([outcome]) => outcome === 'refused')).toBe(true);
    expect(ledger.calls.length).toBeLessThanOrEqual(secondMs / quotaLimits.leaseDryPauseMs + 2);
  });

  it('get `late` if the control plane has no such limit', async () => {
    const gate = gateWith(limitOf('gate_rate', 'minute', 5));
    ledger.limits.clear();
    const heard = request(gate, oneRequest);
    await turn();
    expect(heard).toEqual(['late']);
  });

  it('get `late` after a second without an answer; a later answer serves others', async () => {
    const gate = gateWith(limitOf('gate_rate', 'minute', 5));
    ledger.before = () => new Promise((resolve) => setTimeout(resolve, limits.quotaWaitMsMax + 150));
    const heard = request(gate, oneRequest);
    await vi.advanceTimersByTimeAsync(limits.quotaWaitMsMax - 1);
    expect(heard).toEqual([]);
    await vi.advanceTimersByTimeAsync(12);
    expect(heard).toEqual(['late']);
    await vi.advanceTimersByTimeAsync(150);
    expect(request(gate, oneRequest)).toEqual(['taken at once']);
    expect(heard).toEqual(['late']);
  });

  it('are bounded: one too many is answered in the next event-loop turn', async () => {
    const gate = gateWith(limitOf('gate_rate', 'minute', 1_000_000));
    ledger.before = () => new Promise((resolve) => setTimeout(resolve, 100));
    const heard = Array.from({ length: quotaLimits.leaseWaitersMax + 1 }, () => request(gate, oneRequest));
    await turn();
    expect(heard.at(-1)).toEqual(['late']);
    await vi.advanceTimersByTimeAsync(210);
    expect(heard.slice(0, -1).every(([outcome]) => outcome === 'granted')).toBe(true);
  });

  it('ask for the next window if theirs ended during the call', async () => {
    const gate = gateWith(limitOf('gate_rate', 'minute', 5));
    vi.setSystemTime(1_800_000_000_000 + minuteMs - 10);
    ledger.afterwards = () => new Promise((resolve) => setTimeout(resolve, 20));
    const heard = request(gate, oneRequest);
    await vi.advanceTimersByTimeAsync(25);
    expect(heard).toEqual([]);
    await vi.advanceTimersByTimeAsync(25);
    expect(heard).toEqual(['granted']);
    expect(holder.view(gate, unlimited).rate).toMatchObject([
      { used: 1, endsAtMs: 1_800_000_000_000 + 2 * minuteMs },
    ]);
  });
});

describe('what is taken', () => {
  /** The end of an hour, and of its last minute. */
  const endsAtMs = 1_800_000_000_000 as UnixMillis;
  const startsAtMs = (endsAtMs - minuteMs) as UnixMillis;
  /** Units of a window that starts then; by its grantor there is a second left of it. */
  const grant = ({ lease }: HeldWindow, startsAtMs: UnixMillis, lengthMs: number): void => {
    const sentAtMs = fakedClock.monotonic();
    const times = { startsAtMs, endsAtMs: (startsAtMs + lengthMs) as UnixMillis, leftMs: 1_000, sentAtMs };
    lease.grant({ granted: 3, leased: 3, unitsNeeded: 3, unitsAhead: 0, ...times }, sentAtMs);
  };
  const windowsOf = ({ spendWindows, rateWindows }: HeldView) =>
    [must(spendWindows[0], 'a limit on money'), must(rateWindows[0], 'a limit on requests')] as const;
  const someGate = () => gateWith(limitOf('gate_spend', 'hour', 100), limitOf('gate_rate', 'minute', 5));

  it('is of a moment in all windows that are held, the nearest to the time', () => {
    const view = holder.view(someGate(), unlimited);
    const [money, rate] = windowsOf(view);
    expect(takenAtMs(view, 5 as UnixMillis)).toBe(5);
    grant(rate, startsAtMs, minuteMs);
    grant(money, (endsAtMs - hourMs) as UnixMillis, hourMs);
    for (const [atMs, takenMs] of [
      [startsAtMs - 300, startsAtMs],
      [startsAtMs, startsAtMs],
      [endsAtMs - 1, endsAtMs - 1],
      [endsAtMs, endsAtMs - 1],
      [endsAtMs + 300, endsAtMs - 1],
    ] as const)
      expect(takenAtMs(view, atMs as UnixMillis)).toBe(takenMs);
  });

  it('is of no window that another one shows to be over, though its grantor was behind', () => {
    const gate = someGate();
    const [money, rate] = windowsOf(holder.view(gate, unlimited));
    grant(money, (endsAtMs - hourMs) as UnixMillis, hourMs);
    grant(rate, endsAtMs, minuteMs);
    const view = holder.view(gate, unlimited);
    expect(view).toMatchObject({ spend: [{ available: 0, endsAtMs: null }], rate: [{ available: 3 }] });
    expect(takenAtMs(view, (endsAtMs - 300) as UnixMillis)).toBe(endsAtMs);
  });
});

describe('a process that was stopped past the end of its window', () => {
  /** Clocks advance and nothing runs, as between SIGSTOP and SIGCONT. */
  let stoodStillMs = 0;
  const standStill = (ms: number) => {
    stoodStillMs += ms;
    vi.setSystemTime(Date.now() + ms);
  };
  beforeEach(async () => {
    await holder.stop();
    stoodStillMs = 0;
    const monotonic = () => (fakedClock.monotonic() + stoodStillMs) as MonotonicMillis;
    const clock = { now: fakedClock.now, monotonic };
    holder = new LeaseHolder({ client: ledger, clock, random: systemRandom(), logger: silentLogger });
  });

  it('returns no earlier charge into the next window', async () => {
    const gate = gateWith(limitOf('gate_spend', 'day', 100), limitOf('gate_rate', 'minute', 5));
    const both: Charge = { moneyMicroUsd: 10 as MicroUsd, requests: 1 };
    const taken: Reservation[] = [];
    holder.ask(holder.view(gate, unlimited), both, inTime(), () => {
      taken.push(holder.reserve(holder.view(gate, unlimited), both));
    });
    await turn();
    standStill(minuteMs);
    expect(holder.view(gate, unlimited).rate).toMatchObject([{ available: 0, endsAtMs: null }]);
    holder.giveBack(must(taken[0], 'it was granted'));
    // The day still lasts, so its money is back; the minute has ended.
    expect(holder.view(gate, unlimited)).toMatchObject({
      spend: [{ available: 10 }],
      rate: [{ available: 0 }],
    });
  });

  it('ignores units of an answer from before the stop', async () => {
    const gate = gateWith(limitOf('gate_rate', 'minute', 5));
    ledger.afterwards = () => {
      ledger.afterwards = () => undefined;
      standStill(minuteMs);
    };
    const heard = request(gate, oneRequest);
    await vi.advanceTimersByTimeAsync(10);
    expect(heard).toEqual(['granted']);
    expect(ledger.leased.get(`gate_rate minute gate_1 null ${1_800_000_000_000 + minuteMs}`)).toBe(1);
  });
});

describe('a holder whose spool has lost records', () => {
  const sweeps = (count: number) => vi.advanceTimersByTimeAsync(count * limits.leaseSweepMs);
  const holders = () => [...new Set(ledger.calls.map((call) => call.holder))];

  it('returns what is left and is followed by another one, which calls though it needs nothing', async () => {
    const gate = gateWith(limitOf('gate_rate', 'day', 100));
    for (let i = 0; i < 8; i++) request(gate, oneRequest);
    await turn();
    spool.failedTurns = 1;
    await sweeps(4);
    expect(holders()).toHaveLength(2);
    expect(ledger.calls.at(-1)).toMatchObject({ holder: holder.holder, seq: 1, asks: [], returns: [] });
    expect(ledger.leasedOf({ kind: 'gate_rate', window: 'day' })).toBe(8);
    const calls = ledger.calls.length;
    await sweeps(20);
    expect(ledger.calls).toHaveLength(calls);
    expect(request(gate, oneRequest)).toEqual([]);
    await turn();
    expect(ledger.calls.at(-1)).toMatchObject({ holder: holders()[1], seq: 2 });
  });

  it('stays until its settlements are over, and gives their units back', async () => {
    const gate = gateWith(limitOf('gate_spend', 'day', 100));
    const taken = await reserve(gate, 60);
    spool.failedTurns = 1;
    await sweeps(4);
    const waiting = request(gate, money(50));
    await sweeps(1);
    expect([holders().length, waiting]).toEqual([1, []]);
    holder.giveBack(taken);
    await sweeps(2);
    expect([holders().length, waiting]).toEqual([2, ['granted']]);
    expect(ledger.leasedOf({ kind: 'gate_spend', window: 'day' })).toBe(50);
  });

  it('may be that of the process before: the next process calls once, though it needs nothing', async () => {
    await sweeps(20);
    expect(ledger.calls).toMatchObject([{ holder: holder.holder, seq: 1, asks: [], returns: [] }]);
  });

  it('makes no such call before it is connected', async () => {
    let isConnected = false;
    const early = new LeaseHolder({
      ...{ client: ledger, epoch: () => spool.epoch, isConnected: () => isConnected },
      ...{ clock: fakedClock, random: systemRandom(), logger: silentLogger },
    });
    const calls = () => ledger.calls.filter((call) => call.holder === early.holder);
    await sweeps(20);
    expect(calls()).toEqual([]);
    isConnected = true;
    await sweeps(4);
    expect(calls()).toHaveLength(1);
    await early.stop();
  });

  it('is followed by no more than one a second, however often the disk fails', async () => {
    const gate = gateWith(limitOf('gate_rate', 'day', 100));
    const failing = setInterval(() => spool.failedTurns++, 10);
    request(gate, oneRequest);
    await vi.advanceTimersByTimeAsync(10 * secondMs);
    clearInterval(failing);
    expect(holders().length).toBeLessThanOrEqual(11);
    expect(holders().length).toBeGreaterThan(5);
  });
});

describe('a dry window', () => {
  it('shows a refused request the money leased in vain as available, though it went back', async () => {
    const gate = gateWith(limitOf('gate_rate', 'minute', 1), limitOf('gate_spend', 'day', 1_000));
    ledger.leased.set(`gate_rate minute gate_1 null ${1_800_000_000_000}`, 1);
    const need: Charge = { moneyMicroUsd: 50 as MicroUsd, requests: 1 };
    const heard: AskOutcome[] = [];
    holder.ask(holder.view(gate, unlimited), need, inTime(), (outcome) => heard.push(outcome));
    await vi.advanceTimersByTimeAsync(10);
    const refusal = heard[0]?.kind === 'refused' ? heard[0].shortage : null;
    expect(ledger.leasedOf({ kind: 'gate_spend', window: 'day' })).toBe(0);
    expect(holder.view(gate, unlimited, refusal)).toMatchObject({
      spend: [{ isFinal: false, available: 1_000 }],
      rate: [{ isFinal: true, available: 0 }],
    });
    await vi.advanceTimersByTimeAsync(minuteMs);
    expect(holder.view(gate, unlimited, refusal).spend).toMatchObject([{ available: 0 }]);
  });
});

describe('a call', () => {
  const answerLost = (times: number) => {
    let left = times;
    return () => {
      if (left-- > 0) throw new Error('the answer is lost');
    };
  };

  it('is repeated under the same number after a lost answer, and moves nothing twice', async () => {
    const gate = gateWith(limitOf('gate_rate', 'minute', 5));
    ledger.afterwards = answerLost(1);
    const heard = request(gate, oneRequest);
    await vi.advanceTimersByTimeAsync(limits.retryFirstMs + 1);
    expect(heard).toEqual(['granted']);
    expect(ledger.calls.map(({ seq }) => seq)).toEqual([1, 1]);
    expect(ledger.calls[0]).toEqual(ledger.calls[1]);
    expect(ledger.leasedOf({ kind: 'gate_rate', window: 'minute' })).toBe(1);
    expect(holder.counts).toMatchObject({ calls: 1, failures: 1 });
  });

  it('is repeated ever more seldom while it is refused, and soon after that', async () => {
    const gate = gateWith(limitOf('gate_rate', 'minute', 5));
    request(gate, oneRequest);
    await turn();
    ledger.isOverloaded = true;
    const before = ledger.calls.length;
    const heard = request(gate, oneRequest);
    await vi.advanceTimersByTimeAsync(limits.quotaWaitMsMax + 50);
    expect(heard).toEqual(['late']);
    await vi.advanceTimersByTimeAsync(10 * secondMs);
    const repeats = ledger.calls.slice(before);
    // Five while the pauses grow; then each is between a half and the whole of the longest.
    expect(repeats.length).toBeGreaterThanOrEqual(10);
    expect(repeats.length).toBeLessThanOrEqual(5 + 2 * 11);
    expect(new Set(repeats.map(({ seq }) => seq)).size).toBe(1);
    ledger.isOverloaded = false;
    const next = request(gate, oneRequest);
    await vi.advanceTimersByTimeAsync(limits.retryLastMs);
    expect(next).toEqual(['granted']);
    expect(ledger.leasedOf({ kind: 'gate_rate', window: 'minute' })).toBeLessThanOrEqual(5);
  });

  it('counts as unanswered if it grants more than was asked for', async () => {
    const gate = gateWith(limitOf('gate_rate', 'minute', 5));
    const lease = ledger.lease.bind(ledger);
    let isWrong = true;
    ledger.lease = async (body) => {
      const answer = await lease(body);
      if (!isWrong || typeof answer === 'string') return answer;
      isWrong = false;
      return { grants: answer.grants.map((grant) => ({ ...grant, granted: grant.granted + 1 })) };
    };
    const heard = request(gate, oneRequest);
    await turn();
    expect(heard).toEqual([]);
    await vi.advanceTimersByTimeAsync(limits.retryFirstMs);
    expect(heard).toEqual(['granted']);
    expect(holder.counts.failures).toBe(1);
  });

  it('is the only one in flight even if a request served at its start asks again', async () => {
    const dry = gateWith(limitOf('gate_spend', 'day', 10));
    const second = gateWith(limitOf('gate_rate', 'hour', 10));
    const third = gateWith(limitOf('gate_rate', 'day', 10));
    const taken = await reserve(dry, 10);
    let underWay = 0;
    let underWayMax = 0;
    ledger.before = async () => {
      underWayMax = Math.max(underWayMax, ++underWay);
      await new Promise((resolve) => setTimeout(resolve, 20));
    };
    ledger.afterwards = () => {
      underWay--;
    };
    const heard: string[] = [];
    holder.ask(holder.view(dry, unlimited), money(10), inTime(), (outcome) => {
      heard.push(outcome.kind);
      request(third, oneRequest);
    });
    request(second, oneRequest);
    holder.giveBack(taken);
    await vi.advanceTimersByTimeAsync(100);
    expect(heard).toEqual(['granted']);
    expect(underWayMax).toBe(1);
    expect(ledger.calls).toHaveLength(2);
  });

  it('carries no more windows than the ledger accepts; the rest follow', async () => {
    const gate = gateWith(limitOf('gate_rate', 'minute', 5, 'passport'));
    const heard = Array.from({ length: limits.leasesPerCallMax + 10 }, (_, n) =>
      request(gate, oneRequest, passportWith(`p${n}`)),
    );
    await turn();
    await turn();
    expect(heard.every(([outcome]) => outcome === 'granted')).toBe(true);
    expect(ledger.calls.map(({ asks }) => asks.length)).toEqual([limits.leasesPerCallMax, 10]);
  });

  it('drops all leases if its holder is unknown, and a new holder serves the waiting requests', async () => {
    const gate = gateWith(limitOf('gate_rate', 'minute', 50), limitOf('gate_spend', 'day', 100));
    request(gate, { moneyMicroUsd: 10 as MicroUsd, requests: 1 });
    await turn();
    const view = holder.view(gate, unlimited);
    const before = holder.holder;
    ledger.forgetHolders();
    const heard = request(gate, { moneyMicroUsd: 20 as MicroUsd, requests: 1 });
    await turn();
    await turn();
    expect(heard).toEqual(['granted']);
    expect(holder.holder).not.toBe(before);
    expect(holder.holder).toMatch(/^[0-9a-f]{32}$/);
    expect(ledger.calls.map(({ seq }) => seq)).toEqual([1, 2, 1]);
    expect(view.rate).toMatchObject([{ available: 0 }]);
  });
});

/** Leases money of the gate's day and reserves it. */
async function reserve(
  gate: LimitedGate,
  units: number,
  of: LimitedPassport = unlimited,
): Promise<Reservation> {
  const taken: Reservation[] = [];
  holder.ask(holder.view(gate, of), money(units), inTime(), () =>
    taken.push(holder.reserve(holder.view(gate, of), money(units))),
  );
  await turn();
  return must(taken[0], 'what was asked for is there');
}

describe('a reserved charge', () => {
  async function reserved(units: number) {
    const gate = gateWith(limitOf('gate_spend', 'day', 100));
    return { gate, taken: await reserve(gate, units) };
  }

  it('can be given back, once, and taken again', async () => {
    const { gate, taken } = await reserved(30);
    expect(holder.view(gate, unlimited).spend).toMatchObject([{ available: 0, used: 30 }]);
    holder.giveBack(taken);
    expect(holder.view(gate, unlimited).spend).toMatchObject([{ available: 30, used: 0 }]);
    expect(() => holder.giveBack(taken)).toThrow('once');
    expect(() => holder.keep(taken)).toThrow('once');
  });

  it('has the window names of the ledger, and is no longer held once passed on', async () => {
    const { gate, taken } = await reserved(30);
    expect(taken.held()).toEqual([
      {
        ...{ kind: 'gate_spend', gate_id: 'gate_1', passport_id: null, token_hash: null, window: 'day' },
        ...{ starts_at_ms: Math.floor(startMs / 86_400_000) * 86_400_000, units: 30 },
      },
    ]);
    holder.passOn(taken);
    const { lease } = holder.view(gate, unlimited).spendWindows[0] ?? {};
    expect(lease).toMatchObject({ available: 0, taken: 0, granted: 0, used: 30 });
  });
});

describe('units ahead of need', () => {
  /** One request a millisecond. */
  async function demand(gate: LimitedGate, lengthMs: number): Promise<Record<string, number>> {
    const heard = [];
    for (let nowMs = 0; nowMs < lengthMs; nowMs++) {
      heard.push(request(gate, oneRequest));
      await vi.advanceTimersByTimeAsync(1);
    }
    const counts: Record<string, number> = {};
    for (const [outcome = 'nothing'] of heard) counts[outcome] = (counts[outcome] ?? 0) + 1;
    return counts;
  }

  it('outlive a control plane that is away for four seconds, far from the limit', async () => {
    const gate = gateWith(limitOf('gate_rate', 'hour', 1_000_000));
    await demand(gate, 2_000);
    ledger.before = () => Promise.reject(new Error('away'));
    expect(await demand(gate, 3_900)).toEqual({ 'taken at once': 3_900 });
  });

  it('are at most a sixteenth of the rest, so that other sidecars find units', async () => {
    const gate = gateWith(limitOf('gate_rate', 'hour', 3_000));
    await demand(gate, 1_000);
    const { lease } = holder.view(gate, unlimited).rateWindows[0] ?? {};
    for (let ms = 0; ms < 1_000; ms += 100) {
      await demand(gate, 100);
      const left = 3_000 - ledger.leasedOf({ kind: 'gate_rate', window: 'hour' });
      // The need of 200 ms is always leased, up to a sixteenth of the rest.
      expect(lease?.available).toBeLessThanOrEqual(Math.max(limits.leaseAheadMs, left / 16) * 1.3);
    }
  });

  it('are used to the last one if the window runs dry', async () => {
    const gate = gateWith(limitOf('gate_rate', 'hour', 1_000));
    const counts = await demand(gate, 1_500);
    expect((counts['granted'] ?? 0) + (counts['taken at once'] ?? 0)).toBe(1_000);
    expect(ledger.leasedOf({ kind: 'gate_rate', window: 'hour' })).toBe(1_000);
  });

  it('go back within two seconds after the last request, and others can lease them', async () => {
    const gate = gateWith(limitOf('gate_rate', 'hour', 100_000));
    await demand(gate, 1_000);
    const { lease } = holder.view(gate, unlimited).rateWindows[0] ?? {};
    expect(lease?.available).toBeGreaterThan(20);
    await vi.advanceTimersByTimeAsync(1_500);
    expect(lease).toMatchObject({ available: 0, returning: 0, taken: 1_000, granted: 1_000 });
    expect(ledger.leasedOf({ kind: 'gate_rate', window: 'hour' })).toBe(1_000);
  });

  it('are not leased for occasional requests', async () => {
    const gate = gateWith(limitOf('gate_rate', 'hour', 100_000));
    for (let n = 0; n < 5; n++) {
      request(gate, oneRequest);
      await vi.advanceTimersByTimeAsync(secondMs);
    }
    expect(ledger.calls.map(({ asks, returns }) => [asks.length, returns.length])).toEqual(
      Array.from({ length: 5 }, () => [1, 0]),
    );
    expect(ledger.leasedOf({ kind: 'gate_rate', window: 'hour' })).toBe(5);
  });
});

describe('the window table', () => {
  it('is bounded: an unused window makes room for another', async () => {
    await holder.stop();
    holder = newHolder(3);
    const gate = gateWith(limitOf('gate_rate', 'minute', 5, 'passport'));
    for (let n = 0; n < 10; n++) {
      const heard = request(gate, oneRequest, passportWith(`p${n}`));
      await turn();
      expect(heard).toEqual(['granted']);
    }
    expect(holder.counts.windows).toBe(3);
    // A forgotten window is asked for again and loses nothing.
    const again = request(gate, oneRequest, passportWith('p0'));
    await turn();
    expect(again).toEqual(['granted']);
    expect(ledger.leasedOf({ kind: 'gate_rate', window: 'minute' })).toBe(11);
  });

  it('keeps a window with waiting requests or open reservations', async () => {
    await holder.stop();
    holder = newHolder(1);
    const gate = gateWith(limitOf('gate_spend', 'day', 500, 'passport'));
    request(gate, money(1), passportWith('a'));
    const other = request(gate, money(1), passportWith('b'));
    await turn();
    expect(other).toEqual(['late']);
    holder.view(gate, passportWith('a'));
    const taken = await reserve(gate, 5, passportWith('a'));
    const second = request(gate, money(1), passportWith('b'));
    await turn();
    expect(second).toEqual(['late']);
    holder.keep(taken);
    const third = request(gate, money(1), passportWith('b'));
    await turn();
    expect(third).toEqual(['granted']);
  });
});

describe('a stopping holder', () => {
  it('returns all unused units, and answers the waiting requests', async () => {
    const gate = gateWith(limitOf('gate_spend', 'day', 100));
    holder.giveBack(await reserve(gate, 70));
    holder.take(holder.view(gate, unlimited), money(25));
    const heard = request(gate, money(90));
    await holder.stop();
    expect(heard).toEqual(['late']);
    expect(ledger.leasedOf({ kind: 'gate_spend', window: 'day' })).toBe(25);
    const late = request(gate, money(1));
    await turn();
    expect(late).toEqual(['late']);
  });

  it('waits for the call in flight, and returns the units that it brings', async () => {
    const gate = gateWith(limitOf('gate_spend', 'day', 100));
    ledger.before = () => new Promise((resolve) => setTimeout(resolve, 50));
    request(gate, money(70));
    await vi.advanceTimersByTimeAsync(10);
    const stopping = holder.stop();
    await vi.advanceTimersByTimeAsync(200);
    await stopping;
    expect(ledger.leasedOf({ kind: 'gate_spend', window: 'day' })).toBe(0);
  });

  it('does not wait for a control plane that is unreachable', async () => {
    const gate = gateWith(limitOf('gate_spend', 'day', 100));
    ledger.before = () => new Promise(() => undefined);
    request(gate, money(70));
    await turn();
    let isStopped = false;
    void holder.stop().then(() => {
      isStopped = true;
    });
    await vi.advanceTimersByTimeAsync(quotaLimits.leaseStopMsMax);
    expect(isStopped).toBe(true);
  });
});
