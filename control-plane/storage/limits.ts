import { limits, mustHold } from '../../shared/model/limits.ts';
import { hourMs, minuteMs, secondMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const storageLimits = {
  /**
   * While an export waits for its reader its connection says something this often, so that it is not taken
   * for dead.
   */
  exportPulseMs: 3 * secondMs,
  /**
   * Attempts to reach the database at start, with pauses that double up to the last: about half a minute,
   * then the program gives up.
   */
  databaseStartTries: 10,
  databaseStartPauseFirstMs: 100,
  databaseStartPauseLastMs: 8 * secondMs,
  /**
   * One statement, and one pause inside a transaction; past it PostgreSQL ends it, so that no lock is held
   * for ever.
   */
  databaseStatementMsMax: 30 * secondMs,
  /**
   * How long a transaction that locks what many draw on may pause between two statements: a control plane
   * that stands still holds a window for no longer. Others pause for milliseconds; one that refuses ten times
   * its load on a busy machine for up to 4 s.
   */
  lockingPauseMsMax: 6 * secondMs,
  /**
   * An idle connection is closed well before it could be taken for dead, and opened again when it is needed.
   */
  databaseIdleMsMax: 5 * secondMs,
  /**
   * How long a statement of a migration waits for a lock. Whoever needs the table waits behind it, a keyed
   * check among them, which has 1 s.
   */
  migrationLockMsMax: 300,
  /** Pauses until it is tried again, doubling: long enough for those who waited to be served. */
  migrationPauseFirstMs: 500,
  migrationPauseLastMs: 8 * secondMs,
  /** Sessions that a message names. */
  openSessionsShownMax: 5,
  /** The shortest pause between two steps in the background, where steps take next to no time. */
  conversionPauseMsMin: 20,
  /** While another replica is at a step; the first pause after a failure. */
  conversionBusyMs: secondMs,
  /** Progress is logged this often. */
  conversionToldMs: 30 * secondMs,
  /** The longest pause after failures. */
  conversionFailedMsMax: minuteMs,
  /** When all is converted nothing new comes but with another build. */
  conversionsOverMs: hourMs,
  /**
   * How old what a replica answers may be. A standby of Debian's default settings is milliseconds behind; one
   * that is further behind is busy or cut off, and what people have just seen would be gone again.
   */
  readStalenessMsMax: 5 * secondMs,
  /** How far primary and replica are is read this often: several times within the staleness. */
  replicaLookIntervalMs: secondMs,
  /** A replica that takes longer to say how far it is answers nothing else in time either. */
  replicaLookMsMax: secondMs,
  /** What still runs on connections to a replica gets this long when they are closed. */
  replicaEndMsMax: 5 * secondMs,
  /** Accounts whose last change is remembered; beyond it everybody reads as if they had changed something. */
  changedAccountsMax: 10_000,
  /** Reads of one account that wait for their turn at the primary: a quarter second at 5 ms each. */
  passedOverWaitingMax: 100,
  /** How long such a read waits for its turn: as long as a person looks at a page that does not come. */
  passedOverTurnMsMax: 5 * secondMs,
} as const;

mustHold(
  storageLimits.databaseIdleMsMax * 2 <= limits.databaseSilenceMsMax,
  'an idle connection is closed in order, not cut in the moment of its next use',
);
mustHold(
  storageLimits.exportPulseMs * 2 < limits.databaseSilenceMsMax,
  'an export that waits for its reader is not mistaken for a dead database',
);
mustHold(
  storageLimits.replicaLookIntervalMs + storageLimits.replicaLookMsMax < storageLimits.readStalenessMsMax,
  'a replica is not passed over because a look was late once',
);
mustHold(
  limits.idempotencyWaitMsMax < storageLimits.databaseStatementMsMax,
  'a duplicate gives up waiting before its statement is ended',
);
