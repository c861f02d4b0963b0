import { describe, expect, it } from 'vitest';
import { byLimit, type Cap, type Given, overruns } from '../../race/caps.ts';

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

  it('gives the benefit of the doubt to what may belong to either of two windows, and to no more than fits there', () => {
    const doubtful = given(startMs, { earliestMs: startMs + minuteMs - 5, latestMs: startMs + minuteMs + 5 });
    const full = [given(startMs), given(startMs + minuteMs)];
    expect(overruns([cap(1)], [...full.slice(0, 1), doubtful], byLimit)).toEqual([]);
    expect(overruns([cap(1)], [...full, doubtful], byLimit)).toMatchObject([
      { given: 3, allowed: 2, startsAtMs: startMs, endsAtMs: startMs + 2 * minuteMs },
    ]);
  });
});
