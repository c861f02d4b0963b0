import type { CatalogTerms } from '../model/catalog.ts';
import type { DecisionReason } from '../model/decision.ts';
import { type PermissionKey, permissionArea } from '../model/permission.ts';
import type { VerifiedPassport } from './facts.ts';

/**
 * Whether the passport grants the permission, and the catalog, if one is published, contains it (contract
 * §5). The edge has already refused a requested `orders:*`.
 */
export function checkPermission(
  requested: PermissionKey | null,
  passport: VerifiedPassport,
  catalog: CatalogTerms | null,
): DecisionReason | null {
  if (requested === null) return 'permission_missing';
  if (!grants(passport.permissions, requested)) return 'permission_not_granted';
  if (catalog !== null && !catalog.has(requested)) return 'permission_not_in_catalog';
  return null;
}

/** Whether the requested permission is among these, by name or by area (`orders:*`). */
export const grants = (granted: ReadonlySet<string>, requested: PermissionKey): boolean =>
  granted.has(requested) || granted.has(`${permissionArea(requested)}:*`);
