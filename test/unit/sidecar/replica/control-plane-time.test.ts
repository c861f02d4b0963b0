import { describe, expect, it } from 'vitest';
import { chooseEd25519 } from '../../../../shared/crypto/choose-ed25519.ts';
import { limits } from '../../../../shared/model/limits.ts';
import type { MonotonicMillis, UnixMillis } from '../../../../shared/model/time.ts';
import { ControlPlaneTime } from '../../../../sidecar/replica/control-plane-time.ts';
import { replicaLimits } from '../../../../sidecar/replica/limits.ts';
import { ModelService } from '../../../support/data/model-service.ts';

const service = new ModelService(chooseEd25519());

function setUp() {
  const time = { nowMs: 1_000_000, monotonicMs: 500 };
  const controlPlaneTime = new ControlPlaneTime({
    now: () => time.nowMs as UnixMillis,
    monotonic: () => time.monotonicMs as MonotonicMillis,
  });
  /**
   * An answer that took `tripMs` on the way, of which it was held for `heldMs`; the control plane's clock is
   * `aheadMs` ahead.
   */
  const answer = (options: { tripMs: number; heldMs?: number; aheadMs?: number; replica?: string }) => {
    const sentAtMs = time.monotonicMs as MonotonicMillis;
    const heldMs = options.heldMs ?? 0;
    const writtenAtMs = time.nowMs + heldMs + (options.tripMs - heldMs) / 2;
    time.nowMs += options.tripMs;
    time.monotonicMs += options.tripMs;
    controlPlaneTime.note(
      {
        replica: options.replica ?? 'replica',
        now_ms: (writtenAtMs + (options.aheadMs ?? 0)) as UnixMillis,
        held_ms: heldMs,
      },
      sentAtMs,
    );
  };
  return { time, controlPlaneTime, answer };
}

describe('the time of the control plane', () => {
  it('is known by the offset of the clocks, however long the request was held', () => {
    const { controlPlaneTime, answer } = setUp();
    expect(controlPlaneTime.offsetMs).toBeNull();
    answer({ tripMs: 20, aheadMs: 3_000 });
    expect(controlPlaneTime.offsetMs).toBe(-2_990);
    answer({ tripMs: 1_020, heldMs: 1_000, aheadMs: -3_000 });
    expect(controlPlaneTime.offsetMs).toBe(2_990);
  });

  it('counts a heartbeat from when its head was read, though the clocks differ', () => {
    const { time, controlPlaneTime, answer } = setUp();
    const aheadMs = 3_000;
    answer({ tripMs: 20, aheadMs });
    const readAtMs = time.monotonicMs;
    const beat = service.heartbeat('global', time.nowMs + aheadMs);
    time.monotonicMs += 700;
    time.nowMs += 700;
    // The half of the round trip that nobody knows is taken as age.
    expect(controlPlaneTime.readAt(beat)).toBe(readAtMs - 10);
  });

  it('never counts from the future', () => {
    const { time, controlPlaneTime, answer } = setUp();
    answer({ tripMs: 0 });
    expect(controlPlaneTime.readAt(service.heartbeat('global', time.nowMs + 60_000))).toBe(time.monotonicMs);
  });

  it('takes nothing from a repeat, from one that was overtaken, or before the first answer', () => {
    const { time, controlPlaneTime, answer } = setUp();
    expect(controlPlaneTime.readAt(service.heartbeat('global', time.nowMs))).toBeNull();
    answer({ tripMs: 0 });
    expect(controlPlaneTime.readAt(service.heartbeat('global', time.nowMs - 5))).not.toBeNull();
    expect(controlPlaneTime.readAt(service.heartbeat('global', time.nowMs - 5))).toBeNull();
    expect(controlPlaneTime.readAt(service.heartbeat('global', time.nowMs - 6))).toBeNull();
    expect(controlPlaneTime.readAt(service.heartbeat('account', time.nowMs - 6))).not.toBeNull();
    const ofOther = service.heartbeat('global', time.nowMs - 6, 'other replica');
    expect(controlPlaneTime.readAt(ofOther)).toBeNull();
    answer({ tripMs: 0, replica: 'other replica' });
    expect(controlPlaneTime.readAt(ofOther)).not.toBeNull();
  });

  it('keeps the clocks of the replicas apart', () => {
    const { time, controlPlaneTime, answer } = setUp();
    answer({ tripMs: 0, aheadMs: 4_000, replica: 'a' });
    answer({ tripMs: 0, aheadMs: -4_000, replica: 'b' });
    const readAtMs = time.monotonicMs;
    const beats = [4_000, -4_000].map((aheadMs, i) =>
      service.heartbeat('global', time.nowMs + aheadMs, i === 0 ? 'a' : 'b'),
    );
    time.monotonicMs += 700;
    for (const beat of beats) expect(controlPlaneTime.readAt(beat)).toBe(readAtMs);
  });

  it('agrees on the earlier clock, and on none where a clock has jumped', () => {
    const { time, controlPlaneTime, answer } = setUp();
    expect(controlPlaneTime.agreedNowMs).toBeNull();
    answer({ tripMs: 0, aheadMs: -3_000 });
    expect(controlPlaneTime.agreedNowMs).toBe(time.nowMs - 3_000);
    answer({ tripMs: 0, aheadMs: 3_000 });
    expect(controlPlaneTime.agreedNowMs).toBe(time.nowMs);
    // Ours jumps, and no answer has told of it yet.
    time.nowMs += 2 * limits.standingKeptMs;
    expect(controlPlaneTime.agreedNowMs).toBeNull();
    time.nowMs -= 4 * limits.standingKeptMs;
    expect(controlPlaneTime.agreedNowMs).toBeNull();
  });

  it('tells a bounded number of replicas apart and forgets the one heard of longest ago', () => {
    const { time, controlPlaneTime, answer } = setUp();
    const readAt = (replica: string, atMs: number) => {
      answer({ tripMs: 0, replica });
      return controlPlaneTime.readAt(service.heartbeat('global', atMs, replica));
    };
    readAt('first', time.nowMs);
    for (let i = 1; i < replicaLimits.heartbeatReplicasMax; i++) readAt(`replica ${i}`, time.nowMs);
    expect(readAt('first', time.nowMs)).toBeNull();
    readAt('one more', time.nowMs);
    expect(readAt('first', time.nowMs)).not.toBeNull();
  });
});
