import { describe, expect, it } from 'vitest';
import type { MicroUsd } from '../../../../shared/model/money.ts';
import type { UnixMillis } from '../../../../shared/model/time.ts';
import { heldView } from '../../../../sidecar/quota/held-view.ts';
import { HeldWindow } from '../../../../sidecar/quota/held-window.ts';
import { shortWindows } from '../../../../sidecar/quota/short-windows.ts';

const startsAtMs = 1_800_000_000_000 as UnixMillis;
const counter = { gate_id: null, passport_id: null, token_hash: null };

/** A window of ten units; this sidecar holds some. */
function windowWith(kind: 'gate_spend' | 'gate_rate', granted: number): HeldWindow {
  const window = new HeldWindow({ ...counter, kind, window: 'day' }, 10, 0);
  const times = { startsAtMs, endsAtMs: (startsAtMs + 60_000) as UnixMillis, leftMs: 60_000, sentAtMs: 0 };
  window.lease.grant({ granted, leased: granted, ...times, unitsNeeded: granted, unitsAhead: 0 }, 0);
  return window;
}

describe('the windows that a refused request lacks units of', () => {
  const spend = windowWith('gate_spend', 3);
  const rate = windowWith('gate_rate', 0);
  const view = heldView([spend], [rate]);
  const need = { moneyMicroUsd: 6 as MicroUsd, requests: 1 } as const;

  it('are named with the most that may be leased; units held here count as leased', () => {
    const refusal = new Map([spend, rate].map((window) => [window, startsAtMs]));
    expect(shortWindows({ view, need }, refusal)).toEqual([
      { ...spend.name, starts_at_ms: startsAtMs, leased_max: 7 },
      { ...rate.name, starts_at_ms: startsAtMs, leased_max: 9 },
    ]);
  });

  it('exclude windows with enough units, without need, or not named by the refusal', () => {
    const refusal = new Map([[spend, startsAtMs]]);
    expect(shortWindows({ view, need: { ...need, moneyMicroUsd: 3 as MicroUsd } }, refusal)).toEqual([]);
    expect(shortWindows({ view, need: { ...need, moneyMicroUsd: 0 as MicroUsd } }, refusal)).toEqual([]);
    const earlier = new Map([[spend, (startsAtMs - 1) as UnixMillis]]);
    expect(shortWindows({ view, need }, earlier)).toEqual([]);
  });
});
