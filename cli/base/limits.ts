import { limits, mustHold } from '../../shared/model/limits.ts';
import { minuteMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const cliLimits = {
  /** One line of an export: a record with 32 pointers of the maximum length, every character escaped. */
  exportLineBytesMax: 4 * 1024 * 1024,
  /** One file, which a person can read. */
  profilesMax: 100,
  /** A key and a line break, typed or piped. */
  promptCharsMax: 4_096,
  /** Of a receipt with the answer around it, and of a request: a body is shorter. */
  receiptBytesMax: 1024 * 1024,
  /** A proof of the log: its path of 63 hashes, and a checkpoint. */
  proofBytesMax: 512 * 1024,
  /** Calls in flight at once: enough to hide the way there, few for a plan limit. */
  callsAtOnce: 8,
  /** A file of bodies or policies: some thousands of gates. */
  inputBytesMax: 8 * 1024 * 1024,
  /** Of such a file, aliases included: as many as fit into its bytes with the names of their members. */
  fileValuesMax: 1_000_000,
  /** A step of an archive: longer than any statement of the control plane (storageLimits). */
  archiveStepMsMax: minuteMs,
  /** A proof, a tile or a JWKS, of a busy service. */
  packCallMsMax: minuteMs / 2,
  /** Of 8 KiB: proofs of entries beside each other share theirs. */
  packTilesKeptMax: 1_024,
  /**
   * Silence in the middle of an export. A service that has waited longer for its database has given up
   * (storageLimits), and one that is stopped says nothing.
   */
  exportSilenceMsMax: 2 * minuteMs,
  /** A JWKS of some thousands of keys, with room for other members. */
  jwksBytesMax: 4 * 1024 * 1024,
  /** A tile, or what the service says instead of one. */
  tileBytesMax: 64 * 1024,
  /** What the service says where it refuses. */
  refusalBytesMax: 64 * 1024,
  /** Wallets whose usage `doctor` reads, one call each: a second or two. */
  doctorWalletsMax: 50,
  /** How often a pack reads the export again, because the file that it has goes not far enough. */
  packReadsMax: 3,
} as const;

mustHold(
  limits.auditStateBytesMax * 2 * 2 < cliLimits.exportLineBytesMax,
  'an audit entry fits in a line of an export, its states written out in full',
);
