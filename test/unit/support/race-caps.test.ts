import { describe, expect, it } from 'vitest';
import type { CounterKey } from '../../../shared/quota/counter.ts';
import { byLimit, type Cap, type Given, overruns } from '../../race/caps.ts';
import { chance } from '../../race/chance.ts';
import { faultKinds, schedule } from '../../race/faults.ts';
import { permitsWhileFrozen, tellingSpans } from '../../race/freezing.ts';
import type { RecordedPermit, Records } from '../../race/records.ts';

const minuteMs = 60_000;
/** The start of a minute. */
const startMs = 1_800_000_000_000;
const cap = (limit: number, change: Partial<Cap> = {}): Cap => ({
  name: 'cap',
  kind: 'gate_rate',
  window: 'minute',
  limit,
  gateId: 'gate_1',
  passportId: null,
  ...change,
});
const given = (atMs: number, change: Partial<Given> = {}): Given => ({
  gateId: 'gate_1',
  passportId: 'pass_1',
  requests: 1,
  moneyMicroUsd: 300,
  earliestMs: atMs,
  latestMs: atMs,
  ...change,
});

describe('the judge of a race', () => {
  it('sees a cap that was passed by one', () => {
    const three = [given(startMs), given(startMs + 1), given(startMs + minuteMs - 1)];
    expect(overruns([cap(3)], three, byLimit)).toEqual([]);
    expect(overruns([cap(2)], three, byLimit)).toMatchObject([{ given: 3, allowed: 2, startsAtMs: startMs }]);
  });

  it('counts requests for a rate and money for spend, of the gate and the passport that the cap names', () => {
    const two = [given(startMs), given(startMs)];
    const spend = cap(599, { kind: 'gate_spend' });
    expect(overruns([spend], two, byLimit)).toMatchObject([{ given: 600 }]);
    expect(overruns([{ ...spend, gateId: 'gate_2' }], two, byLimit)).toEqual([]);
    expect(overruns([{ ...spend, passportId: 'pass_2' }], two, byLimit)).toEqual([]);
    expect(overruns([{ ...spend, gateId: null, passportId: 'pass_1' }], two, byLimit)).toHaveLength(1);
    expect(overruns([cap(0)], [given(startMs, { requests: 0 })], byLimit)).toEqual([]);
  });

  it('counts for a wallet what those in it were given, at any gate', () => {
    const wallet = {
      counter: 'wallet_spend:key' as CounterKey,
      passportIds: new Set(['pass_1', 'pass_2']),
      isLate: false,
      isReserved: false,
    };
    const ofWallet = cap(599, { kind: 'wallet_spend', gateId: null, wallet });
    const two = [given(startMs), given(startMs, { passportId: 'pass_2', gateId: 'gate_2' })];
    expect(overruns([ofWallet], two, byLimit)).toMatchObject([{ given: 600 }]);
    expect(overruns([ofWallet], [given(startMs), given(startMs, { passportId: 'pass_3' })], byLimit)).toEqual(
      [],
    );
    const rate = cap(1, { kind: 'wallet_rate', gateId: null, wallet });
    expect(overruns([rate], two, byLimit)).toMatchObject([{ given: 2 }]);
  });

  it('sees a PERMIT of a frozen wallet, from where all must know of it to where that ends', () => {
    const frozen = { walletId: 'wal_1', name: 'one', passportIds: new Set(['pass_1']), isAmple: true };
    const spans = [{ wallet: frozen, fromMs: startMs, untilMs: startMs + 20_000 }];
    const at = (atMs: number, change: Partial<RecordedPermit> = {}) => ({
      permits: new Map([
        [
          'att_1',
          {
            attestationId: 'att_1',
            gateId: 'gate_1',
            passportId: 'pass_1',
            timestampMs: startMs + atMs,
            ...change,
          },
        ],
      ]) as unknown as Records['permits'],
    });
    const seen = (records: ReturnType<typeof at>) => permitsWhileFrozen(spans, records, ['gate_1']);
    expect(seen(at(10_000))).toEqual([expect.stringContaining('10000 ms after wallet one was frozen')]);
    for (const atMs of [-1, 4_000, 20_000]) expect(seen(at(atMs))).toEqual([]);
    expect(seen(at(10_000, { passportId: 'pass_2' }))).toEqual([]);
    expect(seen(at(10_000, { gateId: 'gate_2' }))).toEqual([]);
    expect(tellingSpans([...spans, { wallet: frozen, fromMs: 0, untilMs: 5_000 }])).toHaveLength(1);
  });

  it('gives the benefit of the doubt to what may belong to either of two windows, and to no more than fits there', () => {
    const doubtful = given(startMs, { earliestMs: startMs + minuteMs - 5, latestMs: startMs + minuteMs + 5 });
    const full = [given(startMs), given(startMs + minuteMs)];
    expect(overruns([cap(1)], [...full.slice(0, 1), doubtful], byLimit)).toEqual([]);
    expect(overruns([cap(1)], [...full, doubtful], byLimit)).toMatchObject([
      { given: 3, allowed: 2, startsAtMs: startMs, endsAtMs: startMs + 2 * minuteMs },
    ]);
  });

  it("compares granted units with the ledger's, window by window", () => {
    const leased = (_: Cap, startsAtMs: number) => (startsAtMs === startMs ? 1 : 0);
    expect(overruns([cap(5)], [given(startMs)], leased)).toEqual([]);
    expect(overruns([cap(5)], [given(startMs + minuteMs)], leased)).toMatchObject([{ given: 1, allowed: 0 }]);
  });
});

describe('the faults of a race', () => {
  it('are the same for the same seed, and others for another', () => {
    const of = (seed: number) => schedule(chance(seed), 30_000);
    expect(of(1)).toEqual(of(1));
    expect(of(1)).not.toEqual(of(2));
  });

  it.each([5_000, 20_000, 300_000])('are of every kind, and all begin within %i ms', (durationMs) => {
    const faults = schedule(chance(7), durationMs);
    expect(new Set(faults.map(({ kind }) => kind))).toEqual(new Set(faultKinds));
    expect(faults.every(({ atMs }) => atMs >= 0 && atMs < durationMs)).toBe(true);
  });
});
