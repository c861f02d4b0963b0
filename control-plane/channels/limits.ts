import { limits, mustHold } from '../../shared/model/limits.ts';
import { minuteMs, secondMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const channelsLimits = {
  /** Channels of one gate, and of an account: each multiplies what every approval writes. */
  channelsPerPlaceMax: 8,
  /** Channels of one account in one mode, those of its gates included. */
  channelsPerAccountMax: 256,
  /** Messages at once to one channel from one replica: services for people allow about one a second. */
  channelConcurrencyMax: 4,
  /**
   * From so many further messages of one kind that are due at a channel for people, one message speaks for
   * them ("38 requests wait"): nobody reads a thousand, and services for people refuse them.
   */
  channelBundleFrom: 5,
  /**
   * Messages that a channel for people may have at once, and how often it may have one more: at most ten in
   * any minute. What is due waits for at most two of these pauses, because beginnings and ends take turns.
   */
  channelBurstMax: 4,
  channelMessageEveryMs: 10 * secondMs,
  /** One message speaks for at most so many: they are claimed and recorded in one statement. */
  channelBundleMax: 1_000,
  /** One message by mail, from the connection to the last answer: mail servers make strangers wait. */
  mailTimeoutMs: 20 * secondMs,
  /** Connections at once to the mail server from one replica: most servers allow ten or twenty. */
  mailConnectionsMax: 8,
  /** After this the message of a replica that died during an attempt is free for others. */
  channelLockMs: minuteMs,
  /** An idle replica looks for due messages this often. */
  channelPollMs: 250,
  /** A message about an end waits this long for the message in flight about the beginning. */
  channelOrderMs: 5 * secondMs,
  /**
   * The end is told this much later than the answer can be undone: clocks of replicas differ by milliseconds.
   */
  channelEndMarginMs: secondMs,
  /** Of what the other side says about a failure that much is kept. */
  channelErrorCharsMax: 200,
  /** Test messages at once from one replica: each holds a request. */
  channelTestsAtOnceMax: 8,
} as const;

mustHold(
  2 * Math.max(channelsLimits.mailTimeoutMs, limits.webhookTimeoutMs) < channelsLimits.channelLockMs,
  'an attempt ends and is recorded well before its claim on the message expires',
);
