import type { GateId } from './ids.ts';
import { type MicroUsd, microUsdFromCents } from './money.ts';
import type { PermissionKey } from './permission.ts';
import type { UnixMillis } from './time.ts';

export const pricingModels = ['per_call', 'per_minute', 'subscription'] as const;
export type PricingModel = (typeof pricingModels)[number];

/**
 * The price of a permission: in a known model, or in the publisher's own words, which count as no price
 * (contract §10).
 */
export type Pricing = KnownPricing | OwnPricing;

interface OwnPricing {
  readonly model: null;
  /** The whole price as published, including `model`. Decisions read the model `free` as price 0. */
  readonly more: Readonly<Record<string, unknown>>;
}

interface KnownPricing {
  readonly model: PricingModel;
  readonly priceCents: number;
  /** `USD`, or another code of its form. */
  readonly currency: string;
  /** Unknown members of the price; signed with the rest and never read here. */
  readonly more: Readonly<Record<string, unknown>>;
}

/** Promised by the publisher and not measured. */
export interface ServiceLevel {
  /** 10,000 is 100 %. */
  readonly uptimeBasisPoints: number;
  readonly responseTimeMs: number;
}

/** One permission that a gate offers. */
export interface CatalogEntry {
  readonly key: PermissionKey;
  readonly displayName: string | null;
  readonly description: string | null;
  readonly pricing: Pricing | null;
  readonly category: string | null;
  readonly riskLevel: string | null;
  readonly sla: ServiceLevel | null;
  readonly platformFeeBasisPoints: number | null;
  readonly requiresApproval: boolean;
}

/** The signed content of one version. Immutable; the next version replaces it. */
export interface CatalogContent {
  readonly gateId: GateId;
  /** From 1, without holes. */
  readonly version: number;
  /** Each key once, in the publisher's order. */
  readonly permissions: readonly CatalogEntry[];
  /** Unknown members of the catalog; signed with the rest and never read here. */
  readonly more: Readonly<Record<string, unknown>>;
  readonly publishedAtMs: UnixMillis;
  readonly signingKeyId: string;
}

/** The part of a version that the publisher sets. */
export type CatalogOffer = Pick<CatalogContent, 'permissions' | 'more'>;

export interface Catalog extends CatalogContent {
  readonly contentHash: string;
  /** base64url Ed25519. */
  readonly signature: string;
}

/** The terms of one permission for decisions. */
export interface PermissionTerms {
  /** Per call. Null: no per-call price in USD. */
  readonly priceMicroUsd: MicroUsd | null;
  /** A person must approve each request for it (contract §8). */
  readonly requiresApproval: boolean;
}

/** A catalog for decisions: every permission with its terms. */
export type CatalogTerms = ReadonlyMap<PermissionKey, PermissionTerms>;

export const catalogTerms = (permissions: readonly CatalogEntry[]): CatalogTerms =>
  new Map(
    permissions.map(({ key, pricing, requiresApproval }) => [
      key,
      { priceMicroUsd: pricePerCall(pricing), requiresApproval },
    ]),
  );

/** Prices per minute, for a subscription or in another currency have no amount per request. */
function pricePerCall(pricing: Pricing | null): MicroUsd | null {
  if (pricing === null) return null;
  if (pricing.model === null) return isFree(pricing.more) ? microUsdFromCents(0) : null;
  if (pricing.model !== 'per_call' || pricing.currency !== 'USD') return null;
  return microUsdFromCents(pricing.priceCents);
}

/** Null counts as absent. */
const isFree = ({ model, price_cents, currency }: OwnPricing['more']): boolean =>
  model === 'free' && (price_cents ?? 0) === 0 && (currency ?? 'USD') === 'USD';
