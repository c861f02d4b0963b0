import { type Static, Type } from 'typebox';
import { invalidRequest } from '../../errors/api-error.ts';
import { type Issuer, type IssuerStatus, issuerStatuses } from '../../model/issuer.ts';
import { renderOptionalTime, renderTime, type UnixMillis } from '../../model/time.ts';
import type { TrustTier } from '../../model/trust-tier.ts';
import { parseHost } from './domain.ts';
import {
  FederationAnswer,
  FederationBody,
  FederationChange,
  parseFederation,
  renderFederationAnswer,
  type WantedFederation,
} from './federation.ts';
import { boundFreeForm, closed, FreeForm, Name, nullable, Tier, Timestamp } from './fields.ts';
import { type AskedWallet, parseWalletId } from './passport-issue.ts';
import { readOnly } from './read-only.ts';

const WalletOfIssuer = Type.Optional(nullable(Type.String()));

/** `POST /issuers` */
export const IssuerCreation = closed({
  name: Name,
  domain: Type.Optional(nullable(Type.String())),
  trust_tier: Type.Optional(Tier),
  metadata: Type.Optional(FreeForm),
  wallet_id: WalletOfIssuer,
  federation: Type.Optional(FederationBody),
});

/** The read-only members of an existing issuer. */
export const issuerReadOnly = {
  issuer_id: Type.String(),
  domain: nullable(Type.String()),
  trust_tier: Tier,
  created_at: Timestamp,
};

const passportCounts = {
  passport_count: Type.Integer(),
  active_passports: Type.Integer(),
  revoked_passports: Type.Integer(),
  last_passport_issued_at: nullable(Timestamp),
};

/** `PUT /issuers/:id`: only what is present changes; `metadata` is replaced as a whole. */
export const IssuerUpdate = closed({
  name: Type.Optional(Name),
  metadata: Type.Optional(FreeForm),
  status: Type.Optional(Type.Enum(issuerStatuses)),
  wallet_id: WalletOfIssuer,
  federation: Type.Optional(FederationChange),
  ...readOnly({ ...issuerReadOnly, ...passportCounts }),
});

export const IssuerAnswer = Type.Object({
  ...issuerReadOnly,
  ...passportCounts,
  name: Type.String(),
  metadata: FreeForm,
  status: Type.Enum(issuerStatuses),
  wallet_id: nullable(Type.String()),
  /** Null: its passports are issued here. */
  federation: nullable(FederationAnswer),
});

/** The members of a new issuer that its account sets. */
export interface NewIssuer {
  readonly name: string;
  readonly domain: string | null;
  readonly trustTier: TrustTier;
  readonly metadata: FreeForm;
  /** Of its passports; null: they come into none. */
  readonly walletId: AskedWallet;
  /** Null: its passports are issued here. */
  readonly federation: WantedFederation | null;
}

/** Null: unchanged. */
export interface IssuerChange {
  readonly name: string | null;
  readonly metadata: FreeForm | null;
  readonly status: IssuerStatus | null;
  /** Null: none from now on. Undefined: unchanged. */
  readonly walletId: AskedWallet | undefined;
  readonly federation: Static<typeof FederationChange> | null;
}

/** An issuer with the counts of its passports, as read now. */
export interface CountedIssuer extends Issuer {
  readonly passportCount: number;
  readonly activePassports: number;
  readonly revokedPassports: number;
  readonly lastPassportIssuedAtMs: UnixMillis | null;
}

export function parseIssuerCreation(body: Static<typeof IssuerCreation>): NewIssuer {
  const { federation: told } = body;
  const trustTier = body.trust_tier ?? told?.trust_tier ?? 'L3';
  const federation = told === undefined ? null : parseFederation(told, trustTier);
  if (federation !== null && federation.federation.trustTier !== trustTier)
    throw invalidRequest('trust_tier', 'trust_tier must equal federation.trust_tier. Give one of them.');
  return {
    name: body.name,
    domain: parseDomain(body.domain ?? null),
    trustTier,
    metadata: boundFreeForm('metadata', body.metadata ?? {}),
    walletId: parseWalletId(walletIn(body) ?? null),
    federation,
  };
}

/** It has two names. Undefined: it is not there. */
function walletIn({
  wallet_id: walletId,
  federation,
}: Pick<Static<typeof IssuerUpdate>, 'wallet_id' | 'federation'>): string | null | undefined {
  const other = federation?.wallet_id;
  if (walletId !== undefined && other !== undefined && walletId !== other)
    throw invalidRequest('wallet_id', 'wallet_id must equal federation.wallet_id. Give one of them.');
  return walletId === undefined ? other : walletId;
}

/** An unverified claim (contract §4); only its form is checked. */
function parseDomain(text: string | null): string | null {
  if (text === null) return null;
  const domain = parseHost(text);
  if (domain === null) throw invalidRequest('domain', 'domain must be a host name, such as example.com.');
  return domain;
}

export function parseIssuerUpdate(body: Static<typeof IssuerUpdate>): IssuerChange {
  const walletId = walletIn(body);
  return {
    name: body.name ?? null,
    metadata: body.metadata === undefined ? null : boundFreeForm('metadata', body.metadata),
    status: body.status ?? null,
    walletId: walletId === undefined ? undefined : parseWalletId(walletId),
    federation: body.federation ?? null,
  };
}

export const renderIssuerReadOnly = (issuer: Issuer) => ({
  issuer_id: issuer.issuerId,
  domain: issuer.domain,
  trust_tier: issuer.trustTier,
  created_at: renderTime(issuer.createdAtMs),
});

export const renderIssuer = (issuer: CountedIssuer): Static<typeof IssuerAnswer> => ({
  ...renderIssuerReadOnly(issuer),
  name: issuer.name,
  metadata: { ...issuer.metadata },
  status: issuer.status,
  wallet_id: issuer.walletId,
  federation: issuer.federation === null ? null : renderFederationAnswer(issuer.federation),
  passport_count: issuer.passportCount,
  active_passports: issuer.activePassports,
  revoked_passports: issuer.revokedPassports,
  last_passport_issued_at: renderOptionalTime(issuer.lastPassportIssuedAtMs),
});
