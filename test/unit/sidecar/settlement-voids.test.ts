import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { limits } from '../../../shared/model/limits.ts';
import type { UnixMillis } from '../../../shared/model/time.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import type { SettlementVoid } from '../../../shared/wire/sync/sync.ts';
import type { RecordOwner } from '../../../sidecar/attest/spool.ts';
import { SettlementVoids } from '../../../sidecar/settle/settlement-voids.ts';
import { sampleId } from '../../support/data/sample-chains.ts';

const given = { voids: sampleId('att', 1), took: [4], amount_micro_usd: null } as const;

/** Voids whose spool takes what the test lets it. */
function setUp() {
  const appended: { readonly entry: SettlementVoid; readonly owner: RecordOwner }[] = [];
  let nowMs = 1_000;
  const voids = new SettlementVoids({
    spool: { appendVoid: (entry, owner) => void appended.push({ entry, owner }) },
    clock: { now: () => nowMs++ as UnixMillis },
    logger: silentLogger,
  });
  const told: string[] = [];
  voids.void(given, () => told.push('told'));
  return { voids, appended, told };
}

describe('voids of settlements', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it('report that they are written when they are, and not before', () => {
    const { voids, appended, told } = setUp();
    expect([appended.map(({ entry }) => entry), told, voids.count]).toEqual([
      [{ ...given, timestamp_ms: 1_000 }],
      [],
      0,
    ]);
    appended[0]?.owner.onWritten();
    expect([told, voids.count]).toEqual([['told'], 1]);
  });

  it('are tried until they are written, while their client waits no longer', () => {
    const { voids, appended, told } = setUp();
    appended[0]?.owner.onFailed();
    expect([told, voids.count, appended.length]).toEqual([['told'], 0, 1]);
    vi.advanceTimersByTime(limits.voidRetryMs - 1);
    expect(appended).toHaveLength(1);
    vi.advanceTimersByTime(1);
    appended[1]?.owner.onFailed();
    vi.advanceTimersByTime(limits.voidRetryMs);
    appended[2]?.owner.onWritten();
    vi.advanceTimersByTime(60_000);
    expect([told, voids.count, appended.length]).toEqual([['told'], 1, 3]);
    // The same entry each time: its time is that of the decision to void.
    expect(new Set(appended.map(({ entry }) => entry)).size).toBe(1);
  });

  it('are tried no more after a stop', () => {
    const { voids, appended } = setUp();
    appended[0]?.owner.onFailed();
    voids.stop();
    vi.advanceTimersByTime(60_000);
    expect([appended.length, vi.getTimerCount()]).toEqual([1, 0]);
  });

  it('that come after a stop are tried once, and their clients are told', () => {
    const { voids, appended, told } = setUp();
    voids.stop();
    voids.void(given, () => told.push('told after the stop'));
    appended[1]?.owner.onFailed();
    vi.advanceTimersByTime(60_000);
    expect([told, appended.length, vi.getTimerCount()]).toEqual([['told after the stop'], 2, 0]);
  });
});
