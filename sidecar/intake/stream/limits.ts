import { limits, mustHold } from '../../../shared/model/limits.ts';
import { secondMs } from '../../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const streamLimits = {
  /** What a client names a frame by (contract §16). */
  frameIdCharsMax: 64,
  /** Frames of one stream without an answer, and their bytes: 4 KB each; more is `overloaded`. */
  unansweredMax: 1_024,
  unansweredBytesMax: 4 * 1024 * 1024,
  /**
   * From so many on nothing more is read of the connection, where the server can do so, until no more than
   * the second number are left: what the server has read by then still finds room.
   */
  unansweredPause: 768,
  unansweredResume: 512,
  unansweredBytesPause: 2 * 1024 * 1024,
  unansweredBytesResume: 1024 * 1024,
  /**
   * Messages and pings of a stream that are refused, or answered at once, in one turn of the event loop; one
   * whose id has to be parsed counts as two, and as one more for each 4 KiB. uWebSockets.js reads a
   * connection for as long as its client fills it, and all others wait: some 10 ms. Beyond it the stream is
   * closed with 4429.
   */
  extrasPerTurnMax: 4_096,
  extrasPerParse: 2,
  parsedBytesPerExtra: 4 * 1024,
  /** The same bytes of all streams: what a sidecar may keep for clients that send faster than it decides. */
  unansweredBytesOfAllMax: 64 * 1024 * 1024,
  /**
   * While no more of these are unanswered, frames wait as text, which is read faster than bytes. What waits
   * for long is moved by two collections of the young generation of V8 (16 MiB), so that it must be little
   * beside that; bytes stay where they are.
   */
  unreadTextBytesMax: 1024 * 1024,
  /** Taken in one step, before other streams have theirs: their answers leave with one call to the system. */
  framesPerStep: 16,
  /**
   * Answers and pongs that a client has not read. Beyond the first bound its frames wait; beyond the second,
   * which answers that were under way may reach, its stream is closed with 4408.
   */
  bufferedBytesPause: 256 * 1024,
  bufferedBytesMax: 1024 * 1024,
  /** With the bytes above, 320 MB of buffers at worst; a key in many programs leaves room for others. */
  streamsMax: 256,
  streamsPerKeyMax: 64,
  /** So often each stream is looked at: whether its key still holds, and whether its client is there. */
  sweepMs: secondMs,
  /**
   * A client that sends nothing and answers no ping for so many looks, about 30 s, is cut off; it is pinged
   * from half of them on. Below the minute after which balancers forget an idle connection.
   */
  silentSweepsMax: 30,
} as const;

mustHold(
  streamLimits.unansweredPause < streamLimits.unansweredMax &&
    streamLimits.unansweredBytesPause + limits.bodyBytesMax <= streamLimits.unansweredBytesMax,
  'a stream is paused before its frames are refused',
);
mustHold(
  streamLimits.unansweredBytesMax >= limits.bodyBytesMax,
  'a stream takes the largest frame while nothing else is under way',
);
mustHold(
  streamLimits.unansweredMax * streamLimits.extrasPerParse +
    streamLimits.unansweredBytesMax / streamLimits.parsedBytesPerExtra <=
    streamLimits.extrasPerTurnMax,
  'a client that keeps to the bounds is not closed where all of its frames are refused at once',
);
