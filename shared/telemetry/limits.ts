import { minuteMs, secondMs } from '../model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const telemetryLimits = {
  /** Spans that wait to be sent, about 1 MB, which is what a collector that is away costs. More are lost. */
  waitingSpansMax: 2_048,
  /** Spans of one request: 2 ms of work as protobuf, on the loop that decides. OpenTelemetry takes 512. */
  batchSpansMax: 128,
  /** A batch that is not full waits so long. */
  batchWaitMs: 5 * secondMs,
  /** Checks whose spans a call with settlements links to. */
  linksMax: 128,
  /** A collector that has not answered by then is tried again. */
  answerMsMax: 10 * secondMs,
  /** Its answers are a few bytes; of a longer one the rest is not read. */
  answerBytesMax: 64 * 1024,
  /** Of one batch: about 20 s while each is refused, and 70 s while none is answered. Then it is lost. */
  attemptsMax: 5,
  retryFirstMs: 2 * secondMs,
  retryLastMs: 10 * secondMs,
  /** `Retry-After` asks for more: a collector must not hold spans back for a day. */
  retryAfterMsMax: minuteMs,
  /** What the stop of the program waits for, with all that is left. */
  flushMsMax: 2 * secondMs,
  /** A loss is over when so much time has passed without one: at most one line a minute. */
  quietMsMin: minuteMs,
  metricIntervalMsMin: secondMs,
} as const;
