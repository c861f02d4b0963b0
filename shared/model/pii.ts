import type { PiiFinding } from './attestation.ts';

/** What was found in a request (contract §7). Never a value. */
export interface PiiScan {
  /**
   * In the order of the request, one for each pair of pointer and type, at most limits.piiFindingsMax: there
   * may be more of it than is listed.
   */
  readonly findings: readonly PiiFinding[];
  /** False: the request holds more text than is scanned. */
  readonly isComplete: boolean;
}
