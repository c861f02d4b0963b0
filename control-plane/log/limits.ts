import { assert } from '../../shared/errors/assert.ts';
import { noteBytesMax } from '../../shared/log/note.ts';
import { secondMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const logLimits = {
  /** At most this long after something changed a checkpoint says so (contract §9). */
  checkpointMsMax: 10 * secondMs,
  /** Between two passes over all chains. */
  passPauseMs: 3 * secondMs,
  /**
   * A pass that takes long is followed by a pause this many times as long, so that it leaves the database to
   * others; up to `passPauseMsMax`, behind which records would wait too long.
   */
  passPauseFactor: 4,
  passPauseMsMax: 5 * secondMs,
  /**
   * Of a checkpoint, by keys of this log. Notes with more than 16 signatures are refused by some readers
   * (C2SP signed-note), and those of witnesses are added.
   */
  logSignaturesMax: 8,
  /** Chains that one statement looks at: some 10 ms of the database. */
  pageChainsMax: 16_384,
  /** Entries of one transaction: some 10 ms of the event loop, most of it SHA-256. */
  entriesPerAppendMax: 2_048,
  /** A pass over chains that all change at once publishes what it has by then. */
  publishEveryMs: 4 * secondMs,
  /** Another replica takes over from a writer that was not heard of for so long. */
  writerMs: 15 * secondMs,
  /** A lease is renewed when so much of it is over. */
  renewAfterMs: 5 * secondMs,
  /** Replicas that do not write look this often whether the writer is gone, and what it has published. */
  lookMs: 2 * secondMs,
  /** After a fault of the database or a witness that stops the log. */
  retryMs: 2 * secondMs,
  /** A witness that has not answered by then has not cosigned. */
  witnessMsMax: 3 * secondMs,
  /** Once the quorum has cosigned, the others have this long. */
  witnessGraceMs: 200,
  /** A witness that says that it holds another size is asked again, with a proof from there. */
  witnessTriesMax: 3,
  /** Of a witness's answer: far more cosignatures than one has. */
  witnessAnswerBytesMax: noteBytesMax,
  /** Full tiles that are kept in memory: 2 MiB. */
  tilesKeptMax: 256,
  /** Of an export: each may need tiles of its own, so that memory holds some 100 of them. */
  chainsProvenAtOnceMax: 64,
  /** Of a part of a chain that an export reads at once: it has fewer records. */
  headsPerRangeMax: 1_000,
  /** Each recovery begins one: more than anybody recovers a database. */
  logsServedMax: 64,
  /** How old a checkpoint that is served may be: requests for it cost the database nothing beyond that. */
  checkpointKeptMs: 500,
  /**
   * Strangers read the log, without a key: so many of them at once at the database, and waiting for it, a
   * third of a second at 10 ms each. Where the database is slow they come again.
   */
  readsAtOnceMax: 2,
  readsWaitingMax: 64,
  readTurnMsMax: 2 * secondMs,
} as const;

const { publishEveryMs, witnessMsMax, passPauseMs, writerMs, checkpointMsMax } = logLimits;
assert(
  passPauseMs + witnessMsMax + publishEveryMs <= checkpointMsMax,
  'what changes during a pause is published in time, also where a witness does not answer',
);
assert(writerMs > 2 * logLimits.renewAfterMs, 'a lease is renewed long before it ends');
assert(writerMs > 2 * witnessMsMax + publishEveryMs, 'a writer that waits for witnesses stays the writer');
