import { secondMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const intakeLimits = {
  /** Checks decided in one turn of the event loop: about 1 ms, which every other caller may have to wait. */
  checksPerTurnMax: 32,
  /** Bodies of several checks that wait for their turn, together: as much as frames of streams may be. */
  keptBytesMax: 64 * 1024 * 1024,
  /** Bodies of up to this length wait in reused buffers: a batch of 32 usual checks has 28 KB. */
  keptPlaceBytes: 64 * 1024,
  /** Reused buffers, made as they are needed and never freed: 4 MiB, for 64 callers at once. */
  keptPlacesMax: 64,
  /** A guard asks again before whatever is between the two forgets an idle connection. */
  standingWaitMsMax: 30 * secondMs,
  /** Each keeps a connection: two guards with as many streams as they take. */
  standingWaitersMax: 2_048,
  /** So soon after a change those who wait are looked at: a part of the 100 ms of a revocation. */
  standingLookMs: 25,
  /** So often also without one: passports expire, and states grow old. */
  standingTimesMs: secondMs,
} as const;
