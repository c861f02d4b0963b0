import type { PiiControls } from '../model/constraints.ts';
import type { PermissionKey } from '../model/permission.ts';
import { scanPii } from './scan-pii.ts';

/**
 * The permission as records, approvals and events name it. What an agent asks for without being granted it is
 * text of its own, and may be personal data: where the gate looks for them, it is null here. It is scanned
 * for itself, because the list of findings of a request may end before it.
 */
export function permissionOnRecord(
  permission: PermissionKey | null,
  controls: PiiControls | null,
): PermissionKey | null {
  if (permission === null || controls === null) return permission;
  const { findings } = scanPii({ permission_key: permission }, controls.types);
  return findings.length === 0 ? permission : null;
}
