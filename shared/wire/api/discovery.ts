import { type Static, Type } from 'typebox';
import { type Catalog, type CatalogEntry, pricingModels } from '../../model/catalog.ts';
import type { GateId } from '../../model/ids.ts';
import { limits } from '../../model/limits.ts';
import { permissionCharsMax } from '../../model/permission.ts';
import type { TrustTier } from '../../model/trust-tier.ts';
import { Currency, PricingAnswer, renderCatalogEntry, renderPrice } from './catalog.ts';
import { FreeForm, nullable, Tier } from './fields.ts';
import { pagingQuery } from './paging.ts';

export const discoverySorts = ['price_asc', 'price_desc', 'uptime_desc', 'response_asc'] as const;

const Natural = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });

/** `GET /discover`. Contract §10 says how a filter treats rows without a value for it. */
export const DiscoveryQuery = Type.Object({
  capability: Type.String({ minLength: 1, maxLength: permissionCharsMax }),
  max_price_cents: Type.Optional(Natural),
  min_uptime_bp: Type.Optional(Type.Integer({ minimum: 0, maximum: 10_000 })),
  max_response_time_ms: Type.Optional(Natural),
  pricing_model: Type.Optional(Type.Enum(pricingModels)),
  currency: Type.String({ ...Currency, default: 'USD' }),
  min_security_profile: Type.Optional(Tier),
  sort: Type.Enum(discoverySorts, { default: 'price_asc' }),
  limit: pagingQuery.limit,
  offset: Type.Integer({ minimum: 0, maximum: limits.discoveryOffsetMax, default: 0 }),
  /** `next_cursor` of an answer to the same query: the page begins after it. Excludes `offset`. */
  cursor: Type.Optional(Type.String({ maxLength: limits.discoveryCursorCharsMax })),
});
export type DiscoveryQuery = Static<typeof DiscoveryQuery>;

export const DiscoveryResult = Type.Object({
  gate_id: Type.String(),
  gate_name: Type.String(),
  permission_key: Type.String(),
  display_name: nullable(Type.String()),
  description: nullable(Type.String()),
  category: nullable(Type.String()),
  risk_level: nullable(Type.String()),
  security_profile: Tier,
  pricing: nullable(PricingAnswer),
  sla: nullable(
    Type.Object({
      uptime_basis_points: Type.Integer({ minimum: 0, maximum: 10_000 }),
      response_time_ms: Type.Integer({ minimum: 0, maximum: limits.responseTimeMsMax }),
    }),
  ),
  platform_fee: nullable(Type.Object({ basis_points: Type.Integer({ minimum: 0, maximum: 10_000 }) })),
  catalog_version: Type.Integer(),
  catalog_content_hash: Type.String(),
  catalog_signature: Type.String(),
  signing_key_id: Type.String(),
});
export type DiscoveryResult = Static<typeof DiscoveryResult>;

/**
 * `query`: the query with its defaults. `next_cursor` is the cursor of the next page; null on the last page.
 */
export const DiscoveryAnswer = Type.Object({
  results: Type.Array(DiscoveryResult),
  total: Type.Integer(),
  next_cursor: nullable(Type.String()),
  query: FreeForm,
});

/** One permission of one gate in its current catalog. */
export interface Offer {
  readonly gateId: GateId;
  readonly gateName: string;
  readonly trustLevel: TrustTier;
  readonly entry: CatalogEntry;
  /** The catalog of the entry. */
  readonly catalog: Pick<Catalog, 'version' | 'contentHash' | 'signature' | 'signingKeyId'>;
}

export const renderOffer = ({ gateId, gateName, trustLevel, entry, catalog }: Offer): DiscoveryResult => ({
  gate_id: gateId,
  gate_name: gateName,
  security_profile: trustLevel,
  ...renderOffered(entry),
  catalog_version: catalog.version,
  catalog_content_hash: catalog.contentHash,
  catalog_signature: catalog.signature,
  signing_key_id: catalog.signingKeyId,
});

/** The members of the catalog entry that a result repeats. */
function renderOffered(entry: CatalogEntry) {
  const { display_name, description, category, risk_level, sla, platform_fee } = renderCatalogEntry(entry);
  return {
    permission_key: entry.key,
    display_name,
    description,
    category,
    risk_level,
    pricing: renderPrice(entry.pricing),
    sla,
    platform_fee,
  };
}
