import type { PiiFinding } from '../model/attestation.ts';
import type { PiiControls } from '../model/constraints.ts';
import type { DecisionReason } from '../model/decision.ts';
import { limits } from '../model/limits.ts';
import type { PiiScan } from '../model/pii.ts';

/**
 * Whether personal data block the request (contract §7): anything found if the mode is `block`, and,
 * unless it is `log_only`, a text that is longer than what is scanned, because the unscanned rest may contain
 * some, too.
 */
export function checkPii({ mode }: PiiControls, scan: PiiScan): DecisionReason | null {
  if (mode === 'log_only') return null;
  if (!scan.isComplete) return 'pii_detected';
  return mode === 'block' && scan.findings.length > 0 ? 'pii_detected' : null;
}

/** The whole request (RFC 6901: the empty pointer). */
const unscanned: PiiFinding = Object.freeze({ pointer: '', type: 'unscanned' });

/**
 * Findings for answer and record. A permitted text that was not scanned to its end adds a finding, the last
 * one.
 */
export const reportedFindings = ({ mode }: PiiControls, scan: PiiScan): readonly PiiFinding[] =>
  mode === 'log_only' && !scan.isComplete
    ? [...scan.findings.slice(0, limits.piiFindingsMax - 1), unscanned]
    : scan.findings;
