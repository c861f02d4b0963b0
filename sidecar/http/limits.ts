import { limits, mustHold } from '../../shared/model/limits.ts';
import { secondMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const httpLimits = {
  /**
   * A connection that says nothing for so long, idle or in mid-request, is closed. Fixed in uWebSockets.js at
   * 10 to 11 s.
   */
  requestSilenceMsMax: 10 * secondMs,
  /**
   * A message of a stream: one of up to twice what a frame may have is read whole, so that it gets an answer
   * (contract §16); a longer one ends the connection.
   */
  streamMessageBytesMax: 128 * 1024,
  /**
   * Bodies of over `limits.bodyBytesMax` of which a part has come, of all requests of a listener: as much as
   * those that came whole and wait may be (intakeLimits.keptBytesMax).
   */
  largeBodiesBytesMax: 64 * 1024 * 1024,
  /**
   * A client that does not answer a close frame is cut off after this. uWebSockets.js fixes it at up to 16 s.
   */
  streamCloseMsMax: 16 * secondMs,
} as const;

mustHold(
  httpLimits.largeBodiesBytesMax >= limits.bodyDiscardBytesMax,
  'one large body always has room, where it comes alone',
);
mustHold(
  httpLimits.streamMessageBytesMax > limits.bodyBytesMax,
  'a frame of a stream that is too large gets an answer',
);
