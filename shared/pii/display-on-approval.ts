import type { ApprovalDisplay } from '../model/approval.ts';
import type { PiiControls } from '../model/constraints.ts';
import { redactRequest } from './redact-request.ts';
import { scanPii } from './scan-pii.ts';

/**
 * What an approval shows to the person who is asked: without personal data where the gate redacts it. The
 * request was scanned as a whole already; a display that cannot be scanned to its end alone is left out.
 */
export function displayOnApproval(
  display: ApprovalDisplay | null,
  controls: PiiControls | null,
): ApprovalDisplay | null {
  if (display === null || controls?.mode !== 'redact') return display;
  const asked = { display };
  const scan = scanPii(asked, controls.types);
  if (!scan.isComplete) return null;
  // No name of a member looks like personal data, so the copy has the same ones.
  return redactRequest(asked, controls.types, scan).request['display'] as ApprovalDisplay;
}
