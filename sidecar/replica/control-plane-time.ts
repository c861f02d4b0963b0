import { limits } from '../../shared/model/limits.ts';
import type { MonotonicMillis, UnixMillis } from '../../shared/model/time.ts';
import { CarriedClock } from '../../shared/runtime/carried-clock.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Heartbeat } from '../../shared/wire/sync/sync-schema.ts';
import { replicaLimits } from './limits.ts';

/**
 * Converts times of the control plane to our monotonic clock. Learned from its answers: each carries its
 * clock, and we measure when it arrives:
 *
 *     ours    sent ────────── held ──────────┐ answer written, between here … and here ┌ received
 *     theirs                                 └────────────────  now_ms  ──────────────┘
 *
 * Messages delayed on the way, by accident or by an attacker, count as old as they are.
 */
export class ControlPlaneTime {
  /** The clocks of this machine. */
  readonly machine: Clock;
  /**
   * The control plane's time, for decisions and records (contract §6). All replicas share one clock, the
   * database's. This machine's time until the first answer: a cold start without the control plane has no
   * other.
   */
  readonly clock: CarriedClock;
  /**
   * Per replica, because each carries that clock by itself: lower bound of our monotonic clock minus theirs.
   */
  readonly #earliest = new Map<string, number>();
  /** Per replica and feed: the time of its last heartbeat. */
  readonly #lastBeats = new Map<string, UnixMillis>();

  /** `clock`: tests stop it. */
  constructor(machine: Clock, clock: CarriedClock = new CarriedClock(machine)) {
    this.machine = machine;
    this.clock = clock;
  }

  /** Our wall clock minus the control plane's, within half a round trip; null before the first answer. */
  get offsetMs(): number | null {
    return this.clock.offsetMs;
  }

  /**
   * The earlier of our wall clock and theirs, so a moment before it has passed on both. Null before the first
   * answer, and if the two differ by more than `limits.standingKeptMs`, because either may be wrong. Theirs
   * runs on our monotonic clock, which never jumps, so a jump of ours shows at once.
   */
  get agreedNowMs(): UnixMillis | null {
    if (this.#earliest.size === 0) return null;
    const oursMs = this.machine.now();
    const theirsMs = this.clock.monotonic() - Math.max(...this.#earliest.values());
    const isAgreed = Math.abs(oursMs - theirsMs) <= limits.standingKeptMs;
    return isAgreed ? (Math.min(oursMs, theirsMs) as UnixMillis) : null;
  }

  /**
   * Takes the clock of an answer that has just arrived. Returns how far the control plane's time has jumped,
   * or 0.
   */
  note(
    answer: { readonly replica: string; readonly now_ms: UnixMillis; readonly held_ms: number },
    sentAtMs: MonotonicMillis,
  ): number {
    const earliestMs = (sentAtMs + answer.held_ms) as MonotonicMillis;
    putNewest(this.#earliest, answer.replica, earliestMs - answer.now_ms);
    return this.clock.note({ nowMs: answer.now_ms, askedAtMs: earliestMs });
  }

  /**
   * When the head in this heartbeat was read. Null if it proves nothing: a repeat, one that a later heartbeat
   * of its replica has overtaken, or one of a replica that has not answered a call of ours yet.
   */
  readAt(beat: Heartbeat): MonotonicMillis | null {
    const source = `${beat.replica} ${beat.feed_id}`;
    const last = this.#lastBeats.get(source);
    const earliest = this.#earliest.get(beat.replica);
    if (earliest === undefined || (last !== undefined && beat.at_ms <= last)) return null;
    putNewest(this.#lastBeats, source, beat.at_ms);
    return Math.min(beat.at_ms + earliest, this.clock.monotonic()) as MonotonicMillis;
  }
}

/** Evicts the oldest entry of a full map. */
function putNewest<T>(map: Map<string, T>, name: string, value: T): void {
  map.delete(name);
  map.set(name, value);
  const [oldest] = map.keys();
  if (map.size > replicaLimits.heartbeatReplicasMax && oldest !== undefined) map.delete(oldest);
}
