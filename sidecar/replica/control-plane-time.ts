import { limits } from '../../shared/model/limits.ts';
import type { MonotonicMillis, UnixMillis } from '../../shared/model/time.ts';
import { CarriedClock } from '../../shared/runtime/carried-clock.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Heartbeat } from '../../shared/wire/sync-schema.ts';
import { replicaLimits } from './limits.ts';

/**
 * When something happened at the control plane, on our own monotonic clock. Learned from its answers, each of
 * which carries its clock and came at a time that we measured:
 *
 *     ours    sent ────────── held ──────────┐ answer written, between here … and here ┌ received
 *     theirs                                 └────────────────  now_ms  ──────────────┘
 *
 * What was held back on its way, by chance or by intent, counts as old as it is.
 */
export class ControlPlaneTime {
  /** The clocks of this machine. */
  readonly machine: Clock;
  /**
   * The control plane's time, for whatever is judged or recorded here (contract §6). All replicas go by one
   * clock, that of the database. This machine's until the first answer: a cold start without the control
   * plane has no other.
   */
  readonly clock: CarriedClock;
  /** By replica, because each carries that clock by itself: our monotonic clock minus theirs, at least. */
  readonly #earliest = new Map<string, number>();
  /** By replica and feed: the time of its last heartbeat. */
  readonly #lastBeats = new Map<string, UnixMillis>();

  /** `clock`: tests stop it. */
  constructor(machine: Clock, clock: CarriedClock = new CarriedClock(machine)) {
    this.machine = machine;
    this.clock = clock;
  }

  /**
   * Our wall clock minus the control plane's, give or take half of a round trip; null before the first
   * answer.
   */
  get offsetMs(): number | null {
    return this.clock.offsetMs;
  }

  /**
   * The earlier of our wall clock and theirs: what it says has passed, has passed by both. Null before the
   * first answer, and where they disagree by more than `limits.standingKeptMs`: nobody knows then which one
   * is wrong. Theirs runs on by our monotonic clock, which never jumps, so that a jump of ours shows at once.
   */
  get agreedNowMs(): UnixMillis | null {
    if (this.#earliest.size === 0) return null;
    const oursMs = this.machine.now();
    const theirsMs = this.clock.monotonic() - Math.max(...this.#earliest.values());
    const isAgreed = Math.abs(oursMs - theirsMs) <= limits.standingKeptMs;
    return isAgreed ? (Math.min(oursMs, theirsMs) as UnixMillis) : null;
  }

  /**
   * An answer has just been received. Returns by how much the control plane's time has jumped, 0 if it has
   * not.
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
   * When the head in this heartbeat was read. Null where it proves nothing: for a repeat, one that was
   * overtaken by a later one of the same replica, and of one that has not answered a call of ours yet.
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

/** Forgets the one that was put longest ago where there are too many. */
function putNewest<T>(map: Map<string, T>, name: string, value: T): void {
  map.delete(name);
  map.set(name, value);
  const [oldest] = map.keys();
  if (map.size > replicaLimits.heartbeatReplicasMax && oldest !== undefined) map.delete(oldest);
}
