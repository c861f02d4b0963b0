import { describe, expect, it } from 'vitest';
import { Answers } from '../../race/answers.ts';
import type { Cap } from '../../race/caps.ts';
import { chainFaults, type HeldState, lostOutcomes, momentsOverCap } from '../../race/held-money.ts';
import type { PermitRecord, RecordedPermit, Records } from '../../race/records.ts';

/** Noon of a day. */
const startMs = 1_800_014_400_000;
const cap: Cap = {
  name: 'cap',
  kind: 'gate_spend',
  window: 'day',
  limit: 10,
  gateId: 'gate_1',
  passportId: null,
};
const permit = (
  attestationId: string,
  atMs: number,
  changes: readonly (readonly [resolution: string, money: number, atMs: number])[] = [],
): RecordedPermit => ({
  attestationId,
  gateId: 'gate_1',
  passportId: 'pass_1',
  walletId: null,
  tookMicroUsd: 6,
  moneyMicroUsd: changes.at(-1)?.[1] ?? 6,
  isHeld: true,
  requestHash: '',
  source: 'side_1',
  timestampMs: startMs + atMs,
  changes: changes.map(
    ([resolution, moneyMicroUsd, at]): PermitRecord => ({
      refersTo: attestationId,
      resolution,
      moneyMicroUsd,
      timestampMs: startMs + at,
    }),
  ),
});
const recordsOf = (...permits: RecordedPermit[]): Records => ({
  given: [],
  permits: new Map(permits.map((each) => [each.attestationId, each])),
  voided: new Set(),
  leasedIn: () => 0,
  ledger: [],
  held: new Map(),
});

const over = (...permits: RecordedPermit[]) => momentsOverCap([cap], recordsOf(...permits), new Map());

describe('the judge of held money', () => {
  it('sees more held at one moment than the cap allows, although it went back', () => {
    const first = permit('att_1', 0, [['settled', 1, 5_000]]);
    expect(over(first, permit('att_2', 6_000))).toEqual([]);
    const early = permit('att_2', 2_000, [['released', 0, 9_000]]);
    expect(over(first, early)).toMatchObject([{ given: 12, allowed: 10 }]);
    // Within what clocks may differ, the service is in the right.
    expect(over(first, permit('att_2', 4_990))).toEqual([]);
  });

  it('counts a PERMIT of a control plane from its answer on, and not for ever later', () => {
    const first = permit('att_1', 0, [['settled', 1, 5_000]]);
    const early = { ...permit('att_2', 2_000), source: 'control-plane' };
    const told = (atMs: number) => new Map([['att_2', { latestMs: startMs + atMs }]]);
    const overWhenTold = (atMs: number, second = early) =>
      momentsOverCap([cap], recordsOf(first, second), told(atMs));
    expect(overWhenTold(4_900)).toMatchObject([{ given: 12 }]);
    expect(overWhenTold(5_100)).toEqual([]);
    expect(overWhenTold(5_100, { ...early, source: 'side_1' })).toMatchObject([{ given: 12 }]);
    // Where the answer was lost, it was committed in time.
    expect(over(first, early)).toEqual([]);
    const settledLate = permit('att_1', 0, [['settled', 1, 20_000]]);
    expect(over(settledLate, early)).toMatchObject([{ given: 12 }]);
  });

  it('sees a charge beyond the hold', () => {
    const charged = permit('att_1', 0, [['settled', 11, 1_000]]);
    expect(over(charged)).toMatchObject([{ given: 11 }]);
    const refunded = permit('att_1', 0, [
      ['settled', 11, 1_000],
      ['refunded', 5, 9_000],
    ]);
    expect(over({ ...refunded, source: 'control-plane' })).toMatchObject([{ given: 11 }]);
  });

  it.each([
    ['ended twice', [['settled', 3, 1] as const, ['expired', 0, 2] as const]],
    ['was refunded what it does not count', [['settled', 3, 1] as const, ['refunded', 3, 2] as const]],
    ['was refunded what it does not count', [['refunded', 3, 1] as const]],
    ['was extended past its end', [['released', 0, 1] as const, ['extended', 6, 2] as const]],
  ])('sees a chain that %s', (what, changes) => {
    expect(chainFaults(recordsOf(permit('att_1', 0, changes)))).toEqual([expect.stringContaining(what)]);
  });

  it('follows a sound chain', () => {
    const sound = permit('att_1', 0, [
      ['extended', 6, 1],
      ['settled', 4, 2],
      ['refunded', 1, 3],
    ]);
    expect(chainFaults(recordsOf(sound))).toEqual([]);
  });

  it('sees an outcome that was taken and is lost, and one that nobody has sent', () => {
    const answers = new Answers();
    const text = JSON.stringify({ outcome: 'served', amount: 0.000004 });
    const told = answers.outcomesOf('att_1');
    told.sent.add(text);
    const state = (change: Partial<HeldState>): ReadonlyMap<string, HeldState> =>
      new Map([['att_1', { attestationId: 'att_1', status: 'open', outcome: null, ...change }]]);
    const open = recordsOf(permit('att_1', 0));
    expect(lostOutcomes(state({}), open, answers)).toEqual([]);
    told.taken.add(text);
    expect(lostOutcomes(state({}), open, answers)).toEqual([expect.stringContaining('is lost')]);
    expect(lostOutcomes(state({ status: 'expired' }), open, answers)).toEqual([]);
    const settled = (money: number) => recordsOf(permit('att_1', 0, [['settled', money, 1]]));
    const served = state({ status: 'settled', outcome: 'served' });
    expect(lostOutcomes(served, settled(4), answers)).toEqual([]);
    expect(lostOutcomes(served, settled(3), answers)).toEqual([
      expect.stringContaining('no client has sent'),
    ]);
  });
});
