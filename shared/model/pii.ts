import type { PiiFinding } from './attestation.ts';

/** The findings in a request (contract §7), never a value. */
export interface PiiScan {
  /**
   * In the order of the request, one per pair of pointer and type, at most limits.piiFindingsMax; more may
   * exist.
   */
  readonly findings: readonly PiiFinding[];
  /** False: the request has more text than is scanned. */
  readonly isComplete: boolean;
}
