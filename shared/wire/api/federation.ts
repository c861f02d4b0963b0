import { type Static, Type } from 'typebox';
import { invalidRequest } from '../../errors/api-error.ts';
import {
  type FederatedIssuer,
  type Federation,
  type ForeignKey,
  federatedAlgorithms,
  federationTypes,
  type JsonPointer,
  keyAgeMs,
} from '../../model/federation.ts';
import type { IssuerFederation } from '../../model/issuer.ts';
import { limits } from '../../model/limits.ts';
import {
  isGrantablePermission,
  type PermissionKey,
  permissionCharsMax,
  permissionsPerPassportMax,
} from '../../model/permission.ts';
import { renderOptionalTime, secondMs } from '../../model/time.ts';
import type { TrustTier } from '../../model/trust-tier.ts';
import type { FederationInFeed } from '../sync/sync-schema.ts';
import { renderForms } from './conditions.ts';
import {
  PassportConstraints,
  parseConstraints,
  parseNewConstraints,
  renderConstraints,
} from './constraints.ts';
import { parseWebUrl, webUrlRule } from './domain.ts';
import { closed, FreeForm, nullable, plainText, Tier, Timestamp } from './fields.ts';
import { readOnly } from './read-only.ts';

const Pointer = plainText({ maxLength: limits.jsonPointerCharsMax });
const Permissions = Type.Array(Type.String({ maxLength: permissionCharsMax }), {
  maxItems: permissionsPerPassportMax,
});

/** Where a token says what it becomes. */
export const FederationClaims = closed({
  agent_id: Type.Optional(Pointer),
  permissions: Type.Optional(Pointer),
  trust_tier: Type.Optional(Pointer),
  owner: Type.Optional(Pointer),
  user: Type.Optional(Pointer),
});

const settings = {
  type: Type.Enum(federationTypes),
  issuer: plainText({ minLength: 1, maxLength: limits.webhookUrlCharsMax }),
  audiences: Type.Array(plainText({ minLength: 1, maxLength: limits.webhookUrlCharsMax }), {
    minItems: 1,
    maxItems: limits.federationAudiencesMax,
  }),
  algorithms: Type.Optional(Type.Array(Type.Enum(federatedAlgorithms), { minItems: 1, maxItems: 5 })),
  max_key_age_s: Type.Optional(
    Type.Integer({ minimum: keyAgeMs.min / secondMs, maximum: keyAgeMs.max / secondMs }),
  ),
  claims: Type.Optional(FederationClaims),
  permission_map: Type.Optional(Type.Record(Type.String(), Permissions)),
  permissions: Type.Optional(Permissions),
  trust_tier: Type.Optional(Tier),
  subjects: Type.Optional(
    Type.Array(plainText({ minLength: 1, maxLength: limits.foreignSubjectCharsMax }), {
      minItems: 1,
      maxItems: limits.federationSubjectsMax,
    }),
  ),
  constraints: Type.Optional(PassportConstraints),
};

/** `federation` of `POST /issuers` and `PUT /issuers/:id` (contract §4). */
export const FederationBody = closed({
  ...settings,
  jwks_uri: Type.Optional(Type.String({ maxLength: limits.webhookUrlCharsMax })),
  jwks: Type.Optional(FreeForm),
  /** Of the issuer, which answers show there. */
  wallet_id: Type.Optional(nullable(Type.String())),
});
export type FederationBody = Static<typeof FederationBody>;

const KeyAnswer = Type.Object({ kid: nullable(Type.String()), algorithm: Type.Enum(federatedAlgorithms) });

/** What an answer says of the keys. */
const keyMembers = {
  is_pasted: Type.Boolean(),
  keys: Type.Array(KeyAnswer),
  /** Null: they were pasted. */
  keys_read_at: nullable(Timestamp),
  /** Why they could not be read the last time. */
  keys_fault: nullable(Type.String()),
};

/** The same in `PUT /issuers/:id`, which takes what `GET` answers. Pasted keys stay where it names none. */
export const FederationChange = closed({
  ...FederationBody.properties,
  ...readOnly(keyMembers),
});

export const FederationAnswer = Type.Object({
  ...settings,
  jwks_uri: Type.Optional(Type.String()),
  ...keyMembers,
});

export const renderFederationAnswer = ({
  settings,
  keys,
  keysAtMs,
  fault,
}: IssuerFederation): Static<typeof FederationAnswer> => ({
  ...(settings as unknown as FederationSettings),
  keys: keys.map(({ kid, algorithm }) => ({ kid, algorithm })),
  keys_read_at: renderOptionalTime(keysAtMs),
  keys_fault: fault,
});

/** As it is stored and told to sidecars: every member, but the keys. */
export const FederationSettings = Type.Object({
  ...settings,
  jwks_uri: Type.Optional(Type.String()),
  is_pasted: Type.Boolean(),
});
export type FederationSettings = Static<typeof FederationSettings>;

/** What an account wants of an issuer of others. `jwks`: pasted keys, unread; null: they are fetched. */
export interface WantedFederation {
  readonly federation: Federation;
  readonly jwks: unknown;
}

/** Throws `invalid_request`, naming the field. `trustTier`: of the issuer, where this names none. */
export function parseFederation(body: FederationBody, trustTier: TrustTier): WantedFederation {
  const { type, jwks = null, jwks_uri: jwksUri = null } = body;
  const param = (name: string) => `federation.${name}`;
  if (jwks !== null && jwksUri !== null)
    throw invalidRequest(param('jwks'), 'Give the keys either as jwks or by jwks_uri, not both.');
  if (type !== 'oidc' && jwks === null && jwksUri === null)
    throw invalidRequest(param('jwks_uri'), `An issuer of type ${type} needs jwks_uri or jwks.`);
  const refuse = (name: string, message: string) => {
    throw invalidRequest(param(name), message);
  };
  if (jwksUri !== null && parseWebUrl(jwksUri) === null)
    refuse('jwks_uri', `jwks_uri must be ${webUrlRule}.`);
  const issuer = readIssuer(body, jwks === null && jwksUri === null);
  for (const [value, granted] of Object.entries(body.permission_map ?? {})) {
    if (value.length > limits.jsonPointerCharsMax) refuse('permission_map', 'A value is too long.');
    refuseOtherPermissions(param('permission_map'), granted);
  }
  if (Object.keys(body.permission_map ?? {}).length > limits.federationMappedMax)
    refuse('permission_map', `permission_map has at most ${limits.federationMappedMax} values.`);
  refuseOtherPermissions(param('permissions'), body.permissions ?? []);
  const constraints = parseNewConstraints(body.constraints ?? {}, {
    param: 'constraints',
    of: 'passport',
  });
  const federation = readSettings({
    ...body,
    issuer,
    trust_tier: body.trust_tier ?? trustTier,
    is_pasted: jwks !== null,
  });
  return { federation: { ...federation, constraints }, jwks };
}

/** `iss`, or the trust domain of SPIFFE IDs, which may be written without its scheme. */
function readIssuer({ type, issuer }: FederationBody, isDiscovered: boolean): string {
  if (type === 'jwt-svid') {
    const domain = issuer.replace(/^spiffe:\/\//, '');
    if (!/^[a-z0-9._-]{1,255}$/.test(domain))
      throw invalidRequest(
        'federation.issuer',
        'For jwt-svid, issuer is a trust domain, such as spiffe://example.org.',
      );
    return `spiffe://${domain}`;
  }
  const url = isDiscovered ? parseWebUrl(issuer) : null;
  if (isDiscovered && (url === null || url.search !== '' || url.hash !== ''))
    throw invalidRequest(
      'federation.issuer',
      `For discovery, issuer must be ${webUrlRule}, without a query. Or give jwks_uri or jwks.`,
    );
  return issuer;
}

function refuseOtherPermissions(param: string, permissions: readonly string[]): void {
  const other = permissions.findIndex((each) => !isGrantablePermission(each));
  if (other !== -1)
    throw invalidRequest(param, `Entry ${other} must be <area>:<action> or <area>:*, in lower case.`);
}

const pointerPattern = /^(?:\/(?:[^~/]|~[01])*)+$/;

/** A pointer, or the name of a claim without its slash. */
function readPointer(
  name: keyof NonNullable<FederationSettings['claims']>,
  text: string | undefined,
): JsonPointer | null {
  if (text === undefined) return null;
  if (pointerPattern.test(text)) return text as JsonPointer;
  throw invalidRequest(
    `federation.claims.${name}`,
    'Must be a JSON pointer (RFC 6901) such as /sub or /realm_access/roles.',
  );
}

/** Reads settings as they are stored. Constraints are read by the caller, for its own error. */
function readSettings(stored: FederationSettings): Federation {
  const { claims = {} } = stored;
  const permissions = [...new Set(stored.permissions ?? [])] as PermissionKey[];
  return {
    type: stored.type,
    issuer: stored.issuer,
    jwksUri: stored.jwks_uri ?? null,
    isPasted: stored.is_pasted,
    audiences: stored.audiences,
    algorithms: stored.algorithms ?? federatedAlgorithms,
    maxKeyAgeMs: (stored.max_key_age_s ?? keyAgeMs.default / secondMs) * secondMs,
    claims: {
      agentId: readPointer('agent_id', claims.agent_id) ?? ('/sub' as JsonPointer),
      permissions: readPointer('permissions', claims.permissions),
      trustTier: readPointer('trust_tier', claims.trust_tier),
      owner: readPointer('owner', claims.owner),
      user: readPointer('user', claims.user),
    },
    permissionMap: (stored.permission_map as Federation['permissionMap'] | undefined) ?? null,
    permissions,
    trustTier: stored.trust_tier ?? 'L1',
    subjects: stored.subjects ?? null,
    constraints: parseConstraints(stored.constraints ?? {}, { param: 'constraints', of: 'passport' }),
  };
}

/** The settings in a row or in the feed. Throws for what this build cannot read. */
export const parseStoredFederation = (stored: FederationSettings): Federation => readSettings(stored);

export const renderFederation = (federation: Federation): FederationSettings => ({
  type: federation.type,
  issuer: federation.issuer,
  ...(federation.jwksUri !== null && { jwks_uri: federation.jwksUri }),
  is_pasted: federation.isPasted,
  audiences: [...federation.audiences],
  algorithms: [...federation.algorithms],
  max_key_age_s: federation.maxKeyAgeMs / secondMs,
  claims: {
    agent_id: federation.claims.agentId,
    ...(federation.claims.permissions !== null && { permissions: federation.claims.permissions }),
    ...(federation.claims.trustTier !== null && { trust_tier: federation.claims.trustTier }),
    ...(federation.claims.owner !== null && { owner: federation.claims.owner }),
    ...(federation.claims.user !== null && { user: federation.claims.user }),
  },
  ...(federation.permissionMap !== null && {
    permission_map: Object.fromEntries(
      Object.entries(federation.permissionMap).map(([value, granted]) => [value, [...granted]]),
    ),
  }),
  permissions: [...federation.permissions],
  trust_tier: federation.trustTier,
  ...(federation.subjects !== null && { subjects: [...federation.subjects] }),
  constraints: renderConstraints(federation.constraints) as Static<typeof PassportConstraints>,
});

/** Of an issuer that sidecars know. Throws for what this build cannot read: its tokens are then untrusted. */
export function parseFederatedIssuer(told: FederationInFeed): FederatedIssuer {
  const { constraints = {}, ...settings } = told.settings as FederationSettings;
  const { [userClaim]: _, ...known } = constraints as Readonly<Record<string, unknown>>;
  return {
    issuerId: told.issuer_id,
    accountId: told.account_id,
    mode: told.mode,
    version: told.version,
    federation: parseStoredFederation({ ...settings, constraints: known }),
    keys: told.keys.map(({ kid, algorithm, public_key }): ForeignKey => {
      const known = federatedAlgorithms.find((each) => each === algorithm);
      if (known === undefined) throw new Error(`a key of ${told.issuer_id} is for an unknown algorithm`);
      return { kid, algorithm: known, publicKey: public_key };
    }),
    keysAtMs: told.keys_at_ms,
    hasWallets: told.has_wallets ?? false,
    conditionForms: told.condition_forms ?? [],
  };
}

/**
 * Among the constraints of an issuer whose tokens name users. Version 0.3.0, which would pass over a user who
 * is suspended, takes it for a constraint that it cannot enforce, and trusts no token of the issuer.
 */
const userClaim = 'user';

export const renderFederatedIssuer = (issuer: FederatedIssuer, isActive: boolean): FederationInFeed => ({
  issuer_id: issuer.issuerId,
  account_id: issuer.accountId,
  mode: issuer.mode,
  version: issuer.version,
  is_active: isActive,
  settings: toldSettings(renderFederation(issuer.federation)),
  keys: issuer.keys.map(({ kid, algorithm, publicKey }) => ({ kid, algorithm, public_key: publicKey })),
  keys_at_ms: issuer.keysAtMs,
  ...(issuer.hasWallets && { has_wallets: true }),
  ...renderForms(issuer.federation.constraints.conditions),
});

const toldSettings = (settings: FederationSettings): Readonly<Record<string, unknown>> =>
  settings.claims?.user === undefined
    ? settings
    : { ...settings, constraints: { ...settings.constraints, [userClaim]: true } };

/** The same for the sidecars of other accounts: where its keys are published is not for them. */
export function withoutAddress(told: FederationInFeed): FederationInFeed {
  const { jwks_uri: _, ...settings } = told.settings;
  return { ...told, settings };
}
