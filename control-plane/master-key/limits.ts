import { secondMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const masterKeyLimits = {
  /** A KMS in another region answers in a second, and a start that waits must end before an operator does. */
  commandMsMax: 30 * secondMs,
  /** Five keys of 44 characters, and room for line breaks. */
  commandOutputBytesMax: 4_096,
  /** How often a replica says that it runs, and looks at the others. */
  beatIntervalMs: 5 * secondMs,
  /** One that was silent for so long has ended, or was stopped: three beats. */
  replicaLiveMs: 15 * secondMs,
  /** Rows of replicas that crashed are removed then. */
  replicaKeptMs: 600 * secondMs,
  /** A row that stays behind costs a start with other keys `replicaLiveMs`. */
  leaveMsMax: secondMs,
  /** How often a start looks again at a replica that may be dead. */
  joinRetryMs: 500,
  /** Rows that are sealed anew without a pause: a tenth of a second of one connection. */
  resealRowsPerStep: 100,
  /** What requests get between two steps. */
  resealPauseMs: 20,
  /** Passes over everything until one finds nothing: each but the first meets what changed meanwhile. */
  resealPassesMax: 5,
  /** How often the log says how far it is. */
  resealProgressMs: 10 * secondMs,
  /** Keys of rows that the log names. */
  unopenedNamedMax: 10,
} as const;
