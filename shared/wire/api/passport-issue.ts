import { type Static, Type } from 'typebox';
import { agentKeyOfJwk, parseAgentKey } from '../../crypto/agent-key.ts';
import { ApiError, invalidRequest } from '../../errors/api-error.ts';
import type { Constraints } from '../../model/constraints.ts';
import { type IssuerId, isId, type WalletId } from '../../model/ids.ts';
import { limits } from '../../model/limits.ts';
import {
  isGrantablePermission,
  type PermissionKey,
  permissionCharsMax,
  permissionsPerPassportMax,
} from '../../model/permission.ts';
import { isPlainText, plainTextDemand } from '../../model/plain-text.ts';
import { dayMs, parseDuration, parseTime, toMillis, toSeconds, type UnixMillis } from '../../model/time.ts';
import type { TrustTier } from '../../model/trust-tier.ts';
import { bodyReader } from './body.ts';
import { noConstraints, PassportConstraints, parseNewConstraints } from './constraints.ts';
import { canonicalName } from './email.ts';
import { boundFreeForm, closed, FreeForm, Name, nullable, plainText, Tier } from './fields.ts';

const AgentId = plainText({ minLength: 1, maxLength: limits.agentIdCharsMax });
const OwnerText = plainText({ minLength: 1, maxLength: limits.ownerCharsMax });
const UserText = plainText({ minLength: 1, maxLength: limits.userCharsMax });
const Permissions = Type.Array(Type.String({ maxLength: permissionCharsMax }), {
  maxItems: permissionsPerPassportMax,
});

/** `ed25519:…`, `p256:…`, or a JWK of either. */
const PublicKey = Type.Union([Type.String(), FreeForm]);

/** The reference variant, which is also that of the tool call (contract §3). */
export const ReferenceIssue = closed({
  agent_id: AgentId,
  permissions: Permissions,
  issuer_id: Type.Optional(Type.String()),
  agent_name: Type.Optional(Name),
  expires_in_days: Type.Optional(Type.Integer({ minimum: 1, maximum: limits.passportDaysMax })),
  expires_in: Type.Optional(Type.String()),
  trust_tier: Type.Optional(Tier),
  metadata: Type.Optional(FreeForm),
  public_key: Type.Optional(PublicKey),
  constraints: Type.Optional(PassportConstraints),
  owner: Type.Optional(OwnerText),
  user: Type.Optional(UserText),
  wallet_id: Type.Optional(nullable(Type.String())),
});

/** The variant of the machine description. `expires_at: null` is a passport that never expires. */
export const MachineIssue = closed({
  issuer_id: Type.String(),
  subject: FreeForm,
  permissions: Permissions,
  constraints: Type.Optional(PassportConstraints),
  expires_at: Type.Optional(nullable(Type.String())),
  public_key: Type.Optional(PublicKey),
  trust_tier: Type.Optional(Tier),
  owner: Type.Optional(OwnerText),
  user: Type.Optional(UserText),
  wallet_id: Type.Optional(nullable(Type.String())),
});

/** The variant of unattended issuance. Without an agent_type it is recognised by its path alone. */
export const UnattendedIssue = closed({
  agent_type: Type.Optional(Name),
  permissions: Permissions,
  agent_id: Type.Optional(AgentId),
  agent_name: Type.Optional(Name),
  expires_in: Type.Optional(Type.String()),
  trust_tier: Type.Optional(Tier),
  owner: Type.Optional(OwnerText),
  user: Type.Optional(UserText),
  wallet_id: Type.Optional(nullable(Type.String())),
});

/** `POST /passports`: three published bodies, told apart by their fields (contract §3). */
export const PassportIssue = Type.Union([ReferenceIssue, MachineIssue, UnattendedIssue]);
/** `POST /api/passports`, outside `/v1`: a body without a subject is unattended issuance. */
export const UnattendedPassportIssue = Type.Union([UnattendedIssue, MachineIssue]);

const readReference = bodyReader(ReferenceIssue);
const readMachine = bodyReader(MachineIssue);
const readUnattended = bodyReader(UnattendedIssue);

/** A request to issue, the same for every variant. */
export interface WantedPassport {
  /** Null: the account's own default issuer. */
  readonly issuerId: IssuerId | null;
  /** Null: the service generates it. */
  readonly agentId: string | null;
  /** Null: the agent_id. */
  readonly agentName: string | null;
  /** Without `agent_id`, which every subject gets. */
  readonly subject: FreeForm;
  readonly permissions: readonly PermissionKey[];
  readonly constraints: Constraints;
  readonly trustTier: TrustTier;
  /** `unknown`: no id of a wallet. */
  readonly walletId: AskedWallet | 'default';
  /** `ed25519:…`; null: the service generates the pair. */
  readonly publicKey: string | null;
  /** The time of the request, from which the lifetime counts. */
  readonly issuedAtMs: UnixMillis;
  /** A whole second; null: never. */
  readonly expiresAtMs: UnixMillis | null;
  readonly metadata: FreeForm;
  /** A person or team. Null: none. */
  readonly owner: string | null;
  /** For whom the agent acts. Null: nobody. */
  readonly user: string | null;
}

/** The path prefix of the request: `/v1` or `/api`. */
export type IssuePath = 'v1' | 'api';

/**
 * Reads a request to issue. Throws `invalid_request` naming the field, or `issuer_not_found` for an
 * impossible issuer id.
 */
export function parsePassportIssue(
  body: unknown,
  { path, nowMs }: { readonly path: IssuePath; readonly nowMs: UnixMillis },
): WantedPassport {
  const wanted = readVariant(body, path, nowMs);
  refuseLong('agent_id', wanted.agentId, limits.agentIdCharsMax);
  refuseLong('agent_name', wanted.agentName, limits.nameCharsMax);
  refuseLong('owner', wanted.owner, limits.ownerCharsMax);
  refuseLong('user', wanted.user, limits.userCharsMax);
  return { ...wanted, owner: canonicalName(wanted.owner), user: canonicalName(wanted.user) };
}

function readVariant(body: unknown, path: IssuePath, nowMs: UnixMillis): WantedPassport {
  if (hasField(body, 'subject')) return fromMachine(readMachine(body), nowMs);
  if (hasField(body, 'agent_type') || path === 'api') return fromUnattended(readUnattended(body), nowMs);
  return fromReference(readReference(body), nowMs);
}

const hasField = (body: unknown, name: string): boolean =>
  typeof body === 'object' && body !== null && Object.hasOwn(body, name);

/**
 * A schema counts code points, a token's reader UTF-16 units. The larger count binds, so that every issued
 * token is readable.
 */
function refuseLong(param: string, text: string | null, charsMax: number): void {
  if (text !== null && text.length > charsMax) {
    throw invalidRequest(param, `${param} must be at most ${charsMax} UTF-16 code units.`);
  }
}

const fromReference = (body: Static<typeof ReferenceIssue>, nowMs: UnixMillis): WantedPassport => ({
  issuerId: body.issuer_id === undefined ? null : parseIssuerId(body.issuer_id),
  agentId: body.agent_id,
  agentName: body.agent_name ?? null,
  subject: {},
  permissions: parsePermissions(body.permissions),
  constraints: parsePassportConstraints(body.constraints),
  trustTier: body.trust_tier ?? 'L1',
  publicKey: readPublicKey(body.public_key),
  walletId: body.wallet_id === undefined ? 'default' : parseWalletId(body.wallet_id),
  issuedAtMs: nowMs,
  expiresAtMs: expiryOfReference(body, nowMs),
  metadata: boundFreeForm('metadata', body.metadata ?? {}),
  owner: body.owner ?? null,
  user: body.user ?? null,
});

const fromMachine = (body: Static<typeof MachineIssue>, nowMs: UnixMillis): WantedPassport => ({
  issuerId: parseIssuerId(body.issuer_id),
  agentId: agentIdOfSubject(body.subject),
  agentName: null,
  subject: boundFreeForm('subject', body.subject),
  permissions: parsePermissions(body.permissions),
  constraints: parsePassportConstraints(body.constraints),
  trustTier: body.trust_tier ?? 'L1',
  publicKey: readPublicKey(body.public_key),
  walletId: body.wallet_id === undefined ? 'default' : parseWalletId(body.wallet_id),
  issuedAtMs: nowMs,
  expiresAtMs: expiryOfMachine(body.expires_at, nowMs),
  metadata: {},
  owner: body.owner ?? null,
  user: body.user ?? null,
});

const fromUnattended = (body: Static<typeof UnattendedIssue>, nowMs: UnixMillis): WantedPassport => ({
  issuerId: null,
  agentId: body.agent_id ?? null,
  agentName: body.agent_name ?? null,
  subject: body.agent_type === undefined ? {} : { agent_type: body.agent_type },
  permissions: parsePermissions(body.permissions),
  constraints: noConstraints,
  trustTier: body.trust_tier ?? 'L1',
  publicKey: null,
  walletId: body.wallet_id === undefined ? 'default' : parseWalletId(body.wallet_id),
  issuedAtMs: nowMs,
  expiresAtMs: expiryAfter(body.expires_in, nowMs),
  metadata: {},
  owner: body.owner ?? null,
  user: body.user ?? null,
});

/** An impossible id is an unknown issuer. */
function parseIssuerId(text: string): IssuerId {
  if (!isId('iss', text)) throw new ApiError('issuer_not_found', { param: 'issuer_id' });
  return text;
}

/** Null: none. `unknown`: what is no id of a wallet. */
export type AskedWallet = WalletId | 'unknown' | null;

export function parseWalletId(text: string | null): AskedWallet {
  if (text === null) return null;
  return isId('wal', text) ? text : 'unknown';
}

function agentIdOfSubject(subject: FreeForm): string | null {
  const agentId = subject['agent_id'];
  if (agentId === undefined) return null;
  if (typeof agentId !== 'string' || agentId.length < 1 || agentId.length > limits.agentIdCharsMax) {
    throw invalidRequest(
      'subject.agent_id',
      `subject.agent_id must be a string of 1 to ${limits.agentIdCharsMax} characters.`,
    );
  }
  if (!isPlainText(agentId)) throw invalidRequest('subject.agent_id', `subject.agent_id ${plainTextDemand}.`);
  return agentId;
}

/** Duplicates are dropped. */
function parsePermissions(texts: readonly string[]): readonly PermissionKey[] {
  const keys = texts.map((text, index) => {
    if (isGrantablePermission(text)) return text;
    throw invalidRequest(
      `permissions.${index}`,
      `permissions.${index} must be <area>:<action> or <area>:*, in lower case.`,
    );
  });
  return [...new Set(keys)];
}

const parsePassportConstraints = (value: unknown): Constraints =>
  value === undefined ? noConstraints : parseNewConstraints(value, { param: 'constraints', of: 'passport' });

function readPublicKey(given: Static<typeof PublicKey> | undefined): string | null {
  if (given === undefined) return null;
  const text = typeof given === 'string' ? given : agentKeyOfJwk(given);
  if (text !== null && parseAgentKey(text) !== null) return text;
  throw invalidRequest(
    'public_key',
    'public_key must be ed25519: and 32 bytes in unpadded base64url, or the public JWK of an Ed25519 or P-256 key.',
  );
}

function expiryOfReference(body: Static<typeof ReferenceIssue>, nowMs: UnixMillis): UnixMillis {
  if (body.expires_in === undefined) {
    return wholeSecond(nowMs + (body.expires_in_days ?? limits.passportDaysDefault) * dayMs);
  }
  if (body.expires_in_days !== undefined) {
    throw invalidRequest('expires_in', 'Give either expires_in or expires_in_days.');
  }
  return expiryAfter(body.expires_in, nowMs);
}

function expiryAfter(duration: string | undefined, nowMs: UnixMillis): UnixMillis {
  const defaultMs = limits.passportDaysDefault * dayMs;
  const durationMs = duration === undefined ? defaultMs : parseDuration(duration);
  if (durationMs === null || durationMs > limits.passportDaysMax * dayMs) {
    throw invalidRequest(
      'expires_in',
      `expires_in must be a number with s, m, h or d, such as 12h, and at most ${limits.passportDaysMax}d.`,
    );
  }
  return wholeSecond(nowMs + durationMs);
}

function expiryOfMachine(text: string | null | undefined, nowMs: UnixMillis): UnixMillis | null {
  if (text === null) return null;
  if (text === undefined) return expiryAfter(undefined, nowMs);
  const timeMs = parseTime(text);
  if (timeMs === null)
    throw invalidRequest('expires_at', 'expires_at must be an ISO 8601 date-time, or null.');
  const expiresAtMs = wholeSecond(timeMs);
  if (expiresAtMs <= nowMs) throw invalidRequest('expires_at', 'expires_at must lie in the future.');
  return expiresAtMs;
}

/**
 * Tokens carry whole seconds (RFC 7519 NumericDate), and the stored time must equal the token's (contract
 * §3).
 */
const wholeSecond = (timeMs: number): UnixMillis => toMillis(toSeconds(timeMs as UnixMillis));
