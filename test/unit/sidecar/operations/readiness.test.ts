import { describe, expect, it } from 'vitest';
import type { AccountId } from '../../../../shared/model/ids.ts';
import type { UnixMillis } from '../../../../shared/model/time.ts';
import { type Observed, readinessOf } from '../../../../sidecar/operations/readiness.ts';

const observed = (clockOffsetMs: number | null): Observed => ({
  replica: {
    accountId: 'acct_1' as AccountId,
    stateAgeMs: 5,
    accountRevision: 1,
    globalRevision: 1,
    badRows: [],
  },
  following: {
    status: {
      connected: true,
      superseded: false,
      isRegressed: false,
      clockOffsetMs,
      lastProblem: null,
    } as Observed['following']['status'],
    mustNotServe: null,
  },
  spool: { state: 'open', isFull: false, isSteady: true, waitingBytes: 0 } as Observed['spool'],
  shipper: {
    state: 'shipping',
    lastError: null,
    voidedRecords: { refused: 0, damaged: 0, missing: 0 },
    damagedPlaces: 0,
    tornEnds: 0,
  },
  receipts: { certifiedUntil: () => null },
  server: { name: 'node:http', fallbackReason: null } as Observed['server'],
  ed25519: { name: 'sodium-native' } as Observed['ed25519'],
});

const at = (ms: number) => ms as UnixMillis;
const now = { isDraining: false, nowMs: at(1_000_000), startedAtMs: at(900_000) };
const since = (ms: number): string => new Date(ms).toISOString();

describe('the readiness of a sidecar', () => {
  it.each([
    [1_000, false],
    [1_001, true],
    [-1_001, true],
    [null, false],
  ])('shows that its clock differs by more than a second: %s ms', (offsetMs, isOff) => {
    const { status, control_plane } = readinessOf(observed(offsetMs), now);
    expect(control_plane).toMatchObject({ clock_offset_ms: offsetMs, clock_is_off: isOff });
    // It decides by the control plane's time: nothing is wrong with its decisions.
    expect(status).toBe('ready');
  });

  it.each([
    [60_000, 'ready'],
    [60_001, 'not_ready'],
    [-60_001, 'not_ready'],
  ])('ends where its clock is off by more than a minute: %s ms', (offsetMs, wanted) => {
    expect(readinessOf(observed(offsetMs), now).status).toBe(wanted);
  });

  it.each([
    [5_000, []],
    [5_001, [['L3', since(999_999)]]],
    [60_000, [['L3', since(945_000)]]],
    [
      60_001,
      [
        ['L2', since(999_999)],
        ['L3', since(944_999)],
      ],
    ],
    [
      Number.POSITIVE_INFINITY,
      [
        ['L2', since(900_000)],
        ['L3', since(900_000)],
      ],
    ],
  ])('names the trust levels that a state of %s ms blocks, and since when', (stateAgeMs, wanted) => {
    const { replica, ...others } = observed(0);
    const { status, blocked_trust_levels } = readinessOf(
      { ...others, replica: { ...replica, stateAgeMs } },
      now,
    );
    expect(blocked_trust_levels.map((each) => [each.trust_level, each.since])).toEqual(wanted);
    // L1 gates decide on.
    expect(status).toBe('ready');
  });
});
