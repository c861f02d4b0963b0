import { describe, expect, it } from 'vitest';
import type { AccountId } from '../../../shared/model/ids.ts';
import { type Observed, readinessOf } from '../../../sidecar/readiness.ts';

const observed = (clockOffsetMs: number | null): Observed => ({
  replica: { accountId: 'acct_1' as AccountId, stateAgeMs: 5, accountRevision: 1, globalRevision: 1 },
  following: {
    status: {
      connected: true,
      superseded: false,
      mustNotServe: null,
      clockOffsetMs,
      lastProblem: null,
    } as Observed['following']['status'],
  },
  spool: { state: 'open', isFull: false, isSteady: true, waitingBytes: 0 } as Observed['spool'],
  shipper: {
    state: 'shipping',
    lastError: null,
    voidedRecords: { refused: 0, damaged: 0, missing: 0 },
    damagedPlaces: 0,
    tornEnds: 0,
  },
  server: { name: 'node:http', fallbackReason: null } as Observed['server'],
  ed25519: { name: 'sodium-native' } as Observed['ed25519'],
});

describe('the readiness of a sidecar', () => {
  it.each([
    [1_000, false],
    [1_001, true],
    [-1_000, false],
    [-1_001, true],
    [null, false],
  ])('shows that its clock differs by more than a second: %s ms', (offsetMs, isOff) => {
    const { status, control_plane } = readinessOf(observed(offsetMs), false);
    expect(control_plane).toMatchObject({ clock_offset_ms: offsetMs, clock_is_off: isOff });
    // It decides by the control plane's time: nothing is wrong with its decisions.
    expect(status).toBe('ready');
  });

  it.each([
    [60_000, 'ready'],
    [60_001, 'not_ready'],
    [-60_000, 'ready'],
    [-60_001, 'not_ready'],
  ])('ends where its clock is off by more than a minute: %s ms', (offsetMs, wanted) => {
    expect(readinessOf(observed(offsetMs), false).status).toBe(wanted);
  });
});
