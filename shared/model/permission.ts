import type { Branded } from './brand.ts';

/**
 * `<area>:<action>`, lower case (contract §3). A granted permission may be `<area>:*`; a requested one may
 * not.
 */
export type PermissionKey = Branded<string, 'PermissionKey'>;

const permissionPattern = /^[a-z0-9_.-]+:(?:[a-z0-9_.-]+|\*)$/;

/** `<area>:<action>` without `*`: a requestable permission. */
export const requestablePermissionPattern = /^[a-z0-9_.-]+:[a-z0-9_.-]+$/;

/**
 * Characters in one permission key, and keys in one passport (contract §3): a token must stay within 8 KiB.
 */
export const permissionCharsMax = 128;
export const permissionsPerPassportMax = 64;

/** Whether it is grantable: `orders:create` or `orders:*`. */
export const isGrantablePermission = (value: unknown): value is PermissionKey =>
  typeof value === 'string' && value.length <= permissionCharsMax && permissionPattern.test(value);

/** Whether it is requestable: a single action, no `*`. */
export const isRequestablePermission = (value: unknown): value is PermissionKey =>
  typeof value === 'string' && value.length <= permissionCharsMax && requestablePermissionPattern.test(value);

/** The part before the colon. */
export const permissionArea = (key: PermissionKey): string => key.slice(0, key.indexOf(':'));
