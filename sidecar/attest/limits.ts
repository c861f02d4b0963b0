import { limits, mustHold } from '../../shared/model/limits.ts';
import { secondMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const attestLimits = {
  /** One record as JSON: usually 700 characters; one full of long pointers stays below this. */
  spoolRecordCharsMax: 128 * 1024,
  /**
   * Records of one event-loop turn, written with one call: about 5,000 whole ones. Past it the sidecar sheds
   * load.
   */
  spoolTurnBytesMax: 4 * 1024 * 1024,
  /**
   * A block of this size takes no more records. Damage costs the records of one block, about 100 whole ones
   * or 280 short ones; beyond some kilobytes a larger block is checked no faster.
   */
  spoolBlockBytes: 64 * 1024,
  /** Records of one block, however short: the writer stores the end of each. */
  spoolBlockRecordsMax: 512,
  /** After a failed write this much must fit before the spool takes records again: about 90 of them. */
  spoolProbeBytes: 64 * 1024,
  /** A removed spool folder is detected within this time even if no request comes. */
  spoolLookMs: secondMs,
  /**
   * A sidecar is ready again this long after its spool takes records again: load balancers poll every few
   * seconds.
   */
  spoolSteadyMs: 5 * secondMs,
  /** Read size of the shipper: few calls for a batch, and little is read twice. */
  spoolReadBytes: 512 * 1024,
  /**
   * The shipper yields to requests after parsing this much and the rest of the frame. Parsing all of a read
   * (ten times as much) would block the event loop for up to a millisecond.
   */
  spoolStepBytes: 48 * 1024,
  /**
   * Read attempts on an unreadable part of the spool, over some 5 s, before it stops holding up later
   * records.
   */
  spoolReadTries: 8,
  /**
   * Piece size for reading a partly unreadable segment: a page, the unit in which the kernel reads a disk.
   */
  spoolPieceBytes: 4 * 1024,
  /** One file of the spool. */
  spoolSegmentBytesMax: 8 * 1024 * 1024,
  /** Segments on disk; past it the sidecar answers 503 `overloaded` rather than lose a record. */
  spoolBytesMax: 1024 * 1024 * 1024,
  /** Shipped segments on disk, of all threads of a sidecar. */
  keptBytesMax: 1024 * 1024 * 1024,
  /**
   * Epochs with kept segments. The control plane remembers the last 32 of a sidecar: of one that it has
   * forgotten, records from before the first kept segment would count as lost.
   */
  keptEpochsMax: 24,
  /** With less than this free on their volume kept segments go: the spool and others need it. */
  keptFreeBytesMin: 256 * 1024 * 1024,
  /**
   * A file of refused records of this length takes no more. It is built in memory, where records with shared
   * parts are expanded to whole ones.
   */
  refusedFileCharsMax: 4 * 1024 * 1024,
  /** How long a record may wait for others before it is shipped. */
  shipIntervalMs: 100,
} as const;

mustHold(
  attestLimits.spoolSegmentBytesMax * 4 < attestLimits.spoolBytesMax,
  'a spool holds several segments',
);
mustHold(
  attestLimits.spoolTurnBytesMax <= attestLimits.spoolSegmentBytesMax,
  'the records of one turn fit in one segment',
);
mustHold(
  limits.piiFindingsMax * limits.piiPointerCharsMax * '\\u0000'.length + 4_096 <=
    attestLimits.spoolRecordCharsMax,
  'the largest legal record can be spooled, with every character of a pointer escaped',
);
mustHold(
  attestLimits.spoolBlockBytes +
    attestLimits.spoolRecordCharsMax * 3 +
    attestLimits.spoolBlockRecordsMax * 4 +
    1_024 <
    attestLimits.spoolReadBytes,
  'the largest block, which ends with the largest record, is read in one step',
);
mustHold(
  attestLimits.spoolRecordCharsMax * 3 * 2 < limits.ingestBodyBytesMax,
  'the largest record fits in a batch as UTF-8',
);
mustHold(
  2 * attestLimits.spoolRecordCharsMax * 3 < limits.settlementCallBytesMax,
  'one settlement fits into a call, however large its record',
);
