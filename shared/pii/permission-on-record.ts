import type { PiiControls } from '../model/constraints.ts';
import type { PermissionKey } from '../model/permission.ts';
import { scanPii } from './scan-pii.ts';

/**
 * The permission in records, approvals and events. A permission that was not granted is free text of the
 * agent and may be personal data: at a gate that scans for it, this is null. It is scanned separately,
 * because the request's list of findings may be cut before it.
 */
export function permissionOnRecord(
  permission: PermissionKey | null,
  controls: PiiControls | null,
): PermissionKey | null {
  if (permission === null || controls === null) return permission;
  const { findings } = scanPii({ permission_key: permission }, controls.types);
  return findings.length === 0 ? permission : null;
}
