import { type Static, Type } from 'typebox';
import type { IssuerStatus } from '../../model/issuer.ts';
import { limits } from '../../model/limits.ts';
import { type Passport, passportStatuses, type Suspension } from '../../model/passport.ts';
import { isExpired, renderOptionalTime, renderTime, type UnixMillis } from '../../model/time.ts';
import { ActorAnswer, renderOptionalActor } from '../evidence/audit.ts';
import { renderConstraints } from './constraints.ts';
import { closed, FreeForm, nullable, plainText, Tier, Timestamp } from './fields.ts';
import { pagingQuery } from './paging.ts';

/** A part of a name that may be as long as the subject of an issuer of others. */
const AgentPart = Type.Optional(plainText({ minLength: 1, maxLength: limits.foreignSubjectCharsMax }));

/** `GET /passports` */
export const PassportListQuery = Type.Object({
  agent_id: AgentPart,
  agent_name: AgentPart,
  issuer_id: Type.Optional(Type.String()),
  owner: Type.Optional(Type.String({ maxLength: limits.ownerCharsMax })),
  user: Type.Optional(Type.String({ maxLength: limits.userCharsMax })),
  status: Type.Optional(Type.Enum(passportStatuses)),
  trust_tier: Type.Optional(Tier),
  ...pagingQuery,
});

/** `POST /passports/:id/revoke` */
export const PassportRevocation = closed({
  reason: Type.Optional(plainText({ minLength: 1, maxLength: limits.reasonCharsMax })),
});
export const RevocationQuery = Type.Object({
  /** How long to wait until every connected sidecar knows of the revocation. */
  wait_ms: Type.Integer({ minimum: 0, maximum: limits.propagationWaitMsMax, default: 0 }),
});

/** One of the suspensions that stand (contract §3). */
export const SuspensionAnswer = Type.Object({
  /** `account`, or the id of an issuer. */
  cause: Type.String(),
  since: Timestamp,
  event: nullable(Type.String()),
  /** Of a passport that is suspended with an owner. */
  owner: Type.Optional(Type.String()),
});

/** `POST /passports/:id/reactivate` and `POST /owners/:owner/reactivate` */
export const Reactivation = closed({ issuer_id: Type.Optional(Type.String()) });

/** The members of both published shapes (contract §3) that every answer about a passport has. */
const passportFields = {
  passport_id: Type.String(),
  id: Type.String(),
  agent_id: Type.String(),
  agent_name: Type.String(),
  issuer_id: Type.String(),
  subject: FreeForm,
  permissions: Type.Array(Type.String()),
  constraints: FreeForm,
  trust_tier: Tier,
  /** Null for a passport of another issuer. */
  public_key: nullable(Type.String()),
  owner: nullable(Type.String()),
  user: nullable(Type.String()),
  wallet_id: nullable(Type.String()),
  status: Type.Enum(passportStatuses),
  suspended_by: Type.Array(SuspensionAnswer),
  issued_at: Timestamp,
  created_at: Timestamp,
  expires_at: nullable(Timestamp),
  metadata: FreeForm,
};

/**
 * No other answer has the two secrets. `private_key` is absent if the agent brought its own key, and in a
 * replay (contract §12).
 */
export const IssuedPassportAnswer = Type.Object({
  ...passportFields,
  public_key: Type.String(),
  jwt: Type.String(),
  private_key: Type.Optional(Type.String()),
});

export const PassportAnswer = Type.Object({
  ...passportFields,
  federated: Type.Boolean(),
  issuer_domain: nullable(Type.String()),
  use_count: Type.Integer(),
  last_used_at: nullable(Timestamp),
  revoked_at: nullable(Timestamp),
  revocation_reason: nullable(Type.String()),
  revoked_by: nullable(ActorAnswer),
});

export const PassportListItem = Type.Object({
  passport_id: Type.String(),
  id: Type.String(),
  agent_id: Type.String(),
  agent_name: Type.String(),
  issuer_id: Type.String(),
  permissions: Type.Array(Type.String()),
  trust_tier: Tier,
  owner: nullable(Type.String()),
  user: nullable(Type.String()),
  federated: Type.Boolean(),
  wallet_id: nullable(Type.String()),
  status: Type.Enum(passportStatuses),
  suspended_by: Type.Array(SuspensionAnswer),
  issued_at: Timestamp,
  created_at: Timestamp,
  expires_at: nullable(Timestamp),
});

/** `POST /owners/:owner/suspend` and `reactivate` (contract §4) */
export const OwnerParams = Type.Object({
  owner: plainText({ minLength: 1, maxLength: limits.ownerCharsMax }),
});
export const OwnerAnswer = Type.Object({
  owner: Type.String(),
  status: Type.Enum(['active', 'suspended']),
  suspended_by: Type.Array(SuspensionAnswer),
  passports: Type.Integer(),
  /** Whether there is a passport of this owner. */
  seen: Type.Boolean(),
});

export const RevocationAnswer = Type.Object({
  passport_id: Type.String(),
  id: Type.String(),
  status: Type.Literal('revoked'),
  revoked_at: Timestamp,
  revoked_by: nullable(ActorAnswer),
  reason: Type.String(),
  /**
   * Progress of the sidecars that serve the account's passports: how many are connected, how many of those
   * have acknowledged, and which fell silent in the last minutes.
   */
  propagation: Type.Object({
    revision: Type.Integer(),
    sidecars: Type.Integer(),
    acknowledged: Type.Integer(),
    silent: Type.Array(Type.String()),
  }),
});

export const VerificationAnswer = Type.Object({
  valid: Type.Boolean(),
  passport_id: Type.String(),
  agent_id: Type.String(),
  trust_tier: Tier,
  status: Type.Enum(passportStatuses),
  expires_at: nullable(Timestamp),
  is_expired: Type.Boolean(),
  expired: Type.Boolean(),
  is_revoked: Type.Boolean(),
  revoked: Type.Boolean(),
  reason: nullable(
    Type.Enum(['revoked', 'expired', 'suspended', 'owner_suspended', 'issuer_suspended', 'key_compromised']),
  ),
  revoked_at: nullable(Timestamp),
  revocation_reason: nullable(Type.String()),
});

export const renderSuspensions = (suspendedBy: readonly Suspension[]): Static<typeof SuspensionAnswer>[] =>
  suspendedBy.map(({ cause, sinceMs, event, owner }) => ({
    cause,
    since: renderTime(sinceMs),
    event,
    ...(owner !== null && { owner }),
  }));

/** An owner with what stands against him. */
export const renderOwner = (state: {
  readonly owner: string;
  readonly suspendedBy: readonly Suspension[];
  readonly passports: number;
}): Static<typeof OwnerAnswer> => ({
  owner: state.owner,
  status: state.suspendedBy.length === 0 ? 'active' : 'suspended',
  suspended_by: renderSuspensions(state.suspendedBy),
  passports: state.passports,
  seen: state.passports > 0,
});

const renderCommon = (passport: Passport) => ({
  passport_id: passport.passportId,
  id: passport.passportId,
  agent_id: passport.agentId,
  agent_name: passport.agentName,
  issuer_id: passport.issuerId,
  subject: { ...passport.subject },
  permissions: [...passport.permissions],
  constraints: { ...renderConstraints(passport.constraints) },
  trust_tier: passport.trustTier,
  public_key: passport.isFederated ? null : passport.publicKey,
  owner: passport.owner,
  user: passport.user,
  wallet_id: passport.walletId,
  status: passport.status,
  suspended_by: renderSuspensions(passport.suspendedBy),
  issued_at: renderTime(passport.issuedAtMs),
  created_at: renderTime(passport.issuedAtMs),
  expires_at: renderOptionalTime(passport.expiresAtMs),
  metadata: { ...passport.metadata },
});

/** The answer to issuance, the only one with the token and the agent's private key. */
export const renderIssuedPassport = (
  passport: Passport,
  secrets: { readonly jwt: string; readonly privateKey: string | null },
): Static<typeof IssuedPassportAnswer> => ({
  ...renderCommon(passport),
  public_key: passport.publicKey,
  jwt: secrets.jwt,
  ...(secrets.privateKey === null ? {} : { private_key: secrets.privateKey }),
});

export const renderPassport = (passport: Passport): Static<typeof PassportAnswer> => ({
  ...renderCommon(passport),
  federated: passport.isFederated,
  issuer_domain: passport.issuerDomain,
  use_count: passport.useCount,
  last_used_at: renderOptionalTime(passport.lastUsedAtMs),
  revoked_at: renderOptionalTime(passport.revokedAtMs),
  revocation_reason: passport.revocationReason,
  revoked_by: renderOptionalActor(passport.revokedBy),
});

/** Without `subject`, `metadata` and `constraints`: a page of 200 stays small. */
export const renderPassportListItem = (
  passport: Omit<Passport, 'constraints' | 'revokedBy'>,
): Static<typeof PassportListItem> => ({
  passport_id: passport.passportId,
  id: passport.passportId,
  agent_id: passport.agentId,
  agent_name: passport.agentName,
  issuer_id: passport.issuerId,
  permissions: [...passport.permissions],
  trust_tier: passport.trustTier,
  owner: passport.owner,
  user: passport.user,
  federated: passport.isFederated,
  wallet_id: passport.walletId,
  status: passport.status,
  suspended_by: renderSuspensions(passport.suspendedBy),
  issued_at: renderTime(passport.issuedAtMs),
  created_at: renderTime(passport.issuedAtMs),
  expires_at: renderOptionalTime(passport.expiresAtMs),
});

/** What else blocks a passport. */
interface StandingAround {
  readonly issuerStatus: IssuerStatus;
  readonly isKeyCompromised: boolean;
}

/**
 * The most severe fault of a passport: a revocation is final, then expiry, then a suspension, which may be
 * lifted.
 */
export function renderVerification(
  passport: Passport,
  { nowMs, ...around }: StandingAround & { readonly nowMs: UnixMillis },
): Static<typeof VerificationAnswer> {
  const isRevoked = passport.status === 'revoked';
  const expired = isExpired(passport, nowMs);
  const reason = reasonAgainst(passport, around);
  return {
    valid: reason === null,
    passport_id: passport.passportId,
    agent_id: passport.agentId,
    trust_tier: passport.trustTier,
    status: passport.status,
    expires_at: renderOptionalTime(passport.expiresAtMs),
    is_expired: expired,
    expired,
    is_revoked: isRevoked,
    revoked: isRevoked,
    reason,
    revoked_at: renderOptionalTime(passport.revokedAtMs),
    revocation_reason: passport.revocationReason,
  };
}

function reasonAgainst(
  passport: Passport,
  around: StandingAround,
): Static<typeof VerificationAnswer>['reason'] {
  const isByOwners =
    passport.status === 'suspended' && passport.suspendedBy.every(({ owner }) => owner !== null);
  if (passport.status !== 'active' && !isByOwners) return passport.status;
  if (around.isKeyCompromised) return 'key_compromised';
  if (isByOwners) return 'owner_suspended';
  return around.issuerStatus === 'suspended' ? 'issuer_suspended' : null;
}
