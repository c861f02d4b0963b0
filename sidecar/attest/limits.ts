import { limits, mustHold } from '../../shared/model/limits.ts';
import { secondMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const attestLimits = {
  /**
   * One record in the spool as JSON: a usual one has 700 characters, one full of long pointers stays below
   * this.
   */
  spoolRecordCharsMax: 128 * 1024,
  /**
   * Records of one event-loop turn, written with one call: about 5,000 whole ones. Past it the sidecar sheds
   * load.
   */
  spoolTurnBytesMax: 4 * 1024 * 1024,
  /**
   * A block of records takes no more records from this size on: damaged bytes cost the records of one block,
   * about 100 whole ones or 280 short ones, and beyond some kilobytes a larger block is checked no faster.
   */
  spoolBlockBytes: 64 * 1024,
  /** Records of one block, however short: its writer keeps the end of each. */
  spoolBlockRecordsMax: 512,
  /** After a write that failed so much has to fit before records are taken again: about 90 of them. */
  spoolProbeBytes: 64 * 1024,
  /** A spool whose folder was removed is found out within this time also where nobody asks for a decision. */
  spoolLookMs: secondMs,
  /**
   * A sidecar whose spool took no records is ready again so long after it takes them: balancers look every
   * few seconds.
   */
  spoolSteadyMs: 5 * secondMs,
  /** The shipper reads the spool in steps of this size: few calls for a batch, and little is read twice. */
  spoolReadBytes: 512 * 1024,
  /**
   * The shipper makes way for requests after so much of what it has read, and the frame that it is in: a
   * tenth of what it reads at once, which took up to a millisecond.
   */
  spoolStepBytes: 48 * 1024,
  /**
   * How often a part of the spool that cannot be read is tried, over some 5 s, before it stops holding up all
   * later records.
   */
  spoolReadTries: 8,
  /**
   * A segment of which a part cannot be read is read in pieces of this size: a page, which is what the kernel
   * asks a disk for.
   */
  spoolPieceBytes: 4 * 1024,
  /** One file of the spool. */
  spoolSegmentBytesMax: 8 * 1024 * 1024,
  /** Not yet shipped records on disk; past it the sidecar answers 503 `overloaded` rather than lose one. */
  spoolBytesMax: 1024 * 1024 * 1024,
  /**
   * A file of refused records takes no more of them from this length on: it is put together in memory, where
   * short records that share much of what they say have become whole ones.
   */
  refusedFileCharsMax: 4 * 1024 * 1024,
  /** How long a record may wait for company before it is shipped. */
  shipIntervalMs: 100,
} as const;

mustHold(attestLimits.spoolSegmentBytesMax * 4 < attestLimits.spoolBytesMax, 'a spool is many segments');
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
  'one settlement fits into a call, whatever its record holds',
);
