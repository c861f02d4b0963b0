import type { AccountId, UserId } from './ids.ts';
import type { Scope } from './scopes.ts';
import type { UnixMillis } from './time.ts';

/** What a person may do, strongest first (docs/people.md). */
export const roles = ['owner', 'admin', 'approver', 'auditor', 'read_only'] as const;
export type Role = (typeof roles)[number];

const reading = [
  'passports:read',
  'gates:read',
  'issuers:read',
  'templates:read',
  'attestations:read',
  'approvals:read',
  'wallets:read',
] as const satisfies readonly Scope[];

/**
 * The scopes of each role. A user can only give roles whose scopes they hold, so only `admin:*` makes owners.
 */
export const scopesOfRole = {
  owner: ['admin:*'],
  admin: [
    'passports:issue',
    'passports:read',
    'passports:revoke',
    'gates:create',
    'gates:read',
    'gates:update',
    'gates:manage',
    'issuers:create',
    'issuers:read',
    'issuers:update',
    'templates:read',
    'templates:create',
    'osgate:read',
    'osgate:manage',
    'enforcement:check',
    'enforcement:delegate',
    'attestations:read',
    'audit:read',
    'approvals:read',
    'approvals:resolve',
    'webhooks:manage',
    'keys:manage',
    'wallets:read',
    'wallets:manage',
  ],
  approver: [...reading, 'approvals:resolve'],
  auditor: [...reading, 'audit:read'],
  read_only: reading,
} as const satisfies Readonly<Record<Role, readonly Scope[]>>;

/** The roles that may answer approvals. */
export const approverRoles = ['owner', 'admin', 'approver'] as const satisfies readonly Role[];
export type ApproverRole = (typeof approverRoles)[number];

/** `invited`: has not accepted the invitation yet. `disabled` may have been either before. */
export const userStatuses = ['invited', 'active', 'disabled'] as const;
export type UserStatus = (typeof userStatuses)[number];

/**
 * How a person came: by a link that somebody saw, by one that was mailed and shown to nobody, or by a first
 * login with OIDC in place of the link. Of an invited person `link` or `mail`.
 */
export const waysToCome = ['first_owner', 'link', 'mail', 'oidc'] as const;
export type WayToCome = (typeof waysToCome)[number];

/** What becomes of the link of an invitation: shown to the inviter, mailed to the invited, or both. */
export const deliveries = ['link', 'mail', 'both'] as const;
export type Delivery = (typeof deliveries)[number];

/** A person of an account. Credentials are stored separately and never leave their room. */
export interface User {
  readonly userId: UserId;
  readonly accountId: AccountId;
  /** Lower case; unique in the account. */
  readonly email: string;
  readonly name: string;
  readonly role: Role;
  readonly isDisabled: boolean;
  /** Acceptance of the invitation; null: not yet. */
  readonly acceptedAtMs: UnixMillis | null;
  /** The key or person that made the last link; null: nobody, or not known. */
  readonly invitedBy: string | null;
  readonly cameBy: WayToCome;
  /** Since when the person answers approvals; null: another person has to confirm them first. */
  readonly confirmedAtMs: UnixMillis | null;
  readonly totpEnabled: boolean;
  readonly createdAtMs: UnixMillis;
  readonly lastLoginAtMs: UnixMillis | null;
}

export const userStatusOf = ({
  isDisabled,
  acceptedAtMs,
}: Pick<User, 'isDisabled' | 'acceptedAtMs'>): UserStatus => {
  if (isDisabled) return 'disabled';
  return acceptedAtMs === null ? 'invited' : 'active';
};
