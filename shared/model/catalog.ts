import type { GateId } from './ids.ts';
import { type MicroUsd, microUsdFromCents } from './money.ts';
import type { PermissionKey } from './permission.ts';
import type { UnixMillis } from './time.ts';

export const pricingModels = ['per_call', 'per_minute', 'subscription'] as const;
export type PricingModel = (typeof pricingModels)[number];

/**
 * What a permission costs: in one of the known models, or in words of the publisher's own, which count as no
 * price (contract §10).
 */
export type Pricing = KnownPricing | OwnPricing;

interface OwnPricing {
  readonly model: null;
  /** All of it, as it was published, its `model` included. Model `free` is the price 0 to a decision. */
  readonly more: Readonly<Record<string, unknown>>;
}

interface KnownPricing {
  readonly model: PricingModel;
  readonly priceCents: number;
  /** `USD`, or another code of its form. */
  readonly currency: string;
  /** What the publisher says about the price besides; signed with the rest, and never read here. */
  readonly more: Readonly<Record<string, unknown>>;
}

/** What the publisher promises; nobody measures it. */
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

/** What is signed: a version of what a gate offers. It never changes; the next one takes its place. */
export interface CatalogContent {
  readonly gateId: GateId;
  /** From 1, without holes. */
  readonly version: number;
  /** Each key once, in the publisher's order. */
  readonly permissions: readonly CatalogEntry[];
  /** What the publisher says in the catalog besides; signed with the rest, and never read here. */
  readonly more: Readonly<Record<string, unknown>>;
  readonly publishedAtMs: UnixMillis;
  readonly signingKeyId: string;
}

/** What the publisher decides of a version. */
export type CatalogOffer = Pick<CatalogContent, 'permissions' | 'more'>;

export interface Catalog extends CatalogContent {
  readonly contentHash: string;
  /** base64url Ed25519. */
  readonly signature: string;
}

/** What a decision reads of one permission. */
export interface PermissionTerms {
  /** Per call. Null: there is no such price in USD. */
  readonly priceMicroUsd: MicroUsd | null;
  /** Somebody has to approve each request for it (contract §8). */
  readonly requiresApproval: boolean;
}

/** A catalog as a decision reads it: every permission there is, and on which terms. */
export type CatalogTerms = ReadonlyMap<PermissionKey, PermissionTerms>;

export const catalogTerms = (permissions: readonly CatalogEntry[]): CatalogTerms =>
  new Map(
    permissions.map(({ key, pricing, requiresApproval }) => [
      key,
      { priceMicroUsd: pricePerCall(pricing), requiresApproval },
    ]),
  );

/** Prices by the minute, for a subscription or in another currency are no amount of a single request. */
function pricePerCall(pricing: Pricing | null): MicroUsd | null {
  if (pricing === null) return null;
  if (pricing.model === null) return isFree(pricing.more) ? microUsdFromCents(0) : null;
  if (pricing.model !== 'per_call' || pricing.currency !== 'USD') return null;
  return microUsdFromCents(pricing.priceCents);
}

/** Null counts as absent. */
const isFree = ({ model, price_cents, currency }: OwnPricing['more']): boolean =>
  model === 'free' && (price_cents ?? 0) === 0 && (currency ?? 'USD') === 'USD';
