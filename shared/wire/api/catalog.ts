import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { invalidRequest } from '../../errors/api-error.ts';
import {
  type Catalog,
  type CatalogContent,
  type CatalogEntry,
  type CatalogOffer,
  type CatalogTerms,
  type Pricing,
  type PricingModel,
  pricingModels,
} from '../../model/catalog.ts';
import { limits } from '../../model/limits.ts';
import { parseMicroUsd } from '../../model/money.ts';
import { isRequestablePermission, type PermissionKey, permissionCharsMax } from '../../model/permission.ts';
import { plainTextWithoutColonPattern } from '../../model/plain-text.ts';
import { renderTime } from '../../model/time.ts';
import { boundFreeForm, closed, Description, FreeForm, nullable, plainText, Timestamp } from './fields.ts';
import { shapeReader } from './shape.ts';

/** An ISO 4217 code, or one of its form such as USDC. */
export const Currency = Type.String({ pattern: '^[A-Z][A-Z0-9]{2,7}$' });
const currencyDefault = 'USD';

const PermissionText = Type.String({ maxLength: permissionCharsMax });
const DisplayName = nullable(plainText({ maxLength: limits.nameCharsMax }));
/** Without a colon, so that a category is never taken for a permission key. */
const Category = nullable(
  Type.String({
    minLength: 1,
    maxLength: limits.catalogLabelCharsMax,
    pattern: plainTextWithoutColonPattern.source,
  }),
);
const RiskLevel = nullable(plainText({ minLength: 1, maxLength: limits.catalogLabelCharsMax }));
const PriceCents = Type.Integer({ minimum: 0, maximum: limits.priceCentsMax });
const BasisPoints = Type.Integer({ minimum: 0, maximum: 10_000 });
/** With a known model, decisions and discovery read these three; other members are stored and signed. */
const KnownPricing = Type.Object(
  { model: Type.Enum(pricingModels), price_cents: PriceCents, currency: Type.Optional(nullable(Currency)) },
  { additionalProperties: true },
);
/** The same members with a model that discovery does not know (contract §10). */
const FreePricing = Type.Object(
  {
    model: Type.Literal('free'),
    price_cents: Type.Optional(nullable(Type.Integer({ minimum: 0, maximum: 0 }))),
    currency: Type.Optional(nullable(Currency)),
  },
  { additionalProperties: true },
);
/** Free-form: without a known model it is stored and signed, and counts as no price (contract §10). */
const PricingInput = Type.Union([KnownPricing, FreePricing, FreeForm]);
const Sla = closed({
  uptime_basis_points: BasisPoints,
  response_time_ms: Type.Integer({ minimum: 0, maximum: limits.responseTimeMsMax }),
});
const PlatformFee = closed({ basis_points: BasisPoints });

const EntryInput = closed({
  key: PermissionText,
  display_name: Type.Optional(DisplayName),
  description: Type.Optional(Description),
  pricing: Type.Optional(nullable(PricingInput)),
  category: Type.Optional(Category),
  risk_level: Type.Optional(RiskLevel),
  sla: Type.Optional(nullable(Sla)),
  platform_fee: Type.Optional(nullable(PlatformFee)),
  requires_approval: Type.Optional(Type.Boolean()),
});

/**
 * `POST /gates/:id/catalog`, and `catalog` of a new gate. An empty list offers nothing, and every request at
 * the gate is blocked. Unknown members of the catalog are stored and signed. Entries may have none, because
 * `requires_approval` decides about requests and a misspelling of it must not pass.
 */
export const CatalogPublication = Type.Object(
  { permissions: Type.Array(EntryInput, { maxItems: limits.catalogEntriesMax }) },
  { additionalProperties: true },
);

const pricingFields = { model: Type.Enum(pricingModels), price_cents: PriceCents, currency: Currency };
/** Discovery answers these three members of a price only. */
export const PricingAnswer = Type.Object(pricingFields);

/** The signed form: every member is present, null if it has no value. */
const EntryAnswer = closed({
  key: PermissionText,
  display_name: DisplayName,
  description: Description,
  pricing: nullable(Type.Union([Type.Object(pricingFields, { additionalProperties: true }), FreeForm])),
  category: Category,
  risk_level: RiskLevel,
  sla: nullable(Sla),
  platform_fee: nullable(PlatformFee),
  requires_approval: Type.Boolean(),
});

const catalogFields = {
  gate_id: Type.String(),
  version: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
  permissions: Type.Array(EntryAnswer, { maxItems: limits.catalogEntriesMax }),
  published_at: Timestamp,
  content_hash: Type.String({ pattern: '^sha256:[0-9a-f]{64}$' }),
  /** base64url of 64 bytes. */
  signature: Type.String({ pattern: '^[A-Za-z0-9_-]{86}$' }),
  signing_key_id: Type.String({ pattern: '^[A-Za-z0-9_-]{43}$' }),
};

/** Includes the publisher's unknown members. */
export const CatalogAnswer = Type.Object(catalogFields, { additionalProperties: true });
export type CatalogAnswer = Static<typeof CatalogAnswer>;
export type CatalogEntryAnswer = Static<typeof EntryAnswer>;

/**
 * Reads a publication. Throws `invalid_request` naming the field for a key that is not a single permission or
 * occurs twice, an unreadable price of a known model, and a member that only the service sets.
 */
export function parseCatalogPublication(
  publication: Static<typeof CatalogPublication>,
  at: '' | 'catalog.' = '',
): CatalogOffer {
  const { permissions, ...more } = publication;
  const ours = Object.keys(more).find((name) => Object.hasOwn(catalogFields, name));
  if (ours !== undefined) {
    throw invalidRequest(`${at}${ours}`, `${at}${ours} of a catalog is set by the service. Leave it out.`);
  }
  boundFreeForm(at === '' ? 'body' : 'catalog', more);
  return { permissions: parseEntries(permissions, at), more };
}

function parseEntries(
  permissions: Static<typeof CatalogPublication>['permissions'],
  at: '' | 'catalog.',
): readonly CatalogEntry[] {
  const known = new Set<PermissionKey>();
  return permissions.map((given, index) => {
    const param = `${at}permissions.${index}`;
    const { key } = given;
    if (!isRequestablePermission(key)) {
      throw invalidRequest(
        `${param}.key`,
        `${param}.key must be <area>:<action> in lower case, a single action.`,
      );
    }
    if (known.has(key)) throw invalidRequest(`${param}.key`, `${param}.key is in this catalog twice.`);
    known.add(key);
    if (given.pricing) boundFreeForm(`${param}.pricing`, given.pricing);
    if (given.pricing?.['model'] === 'free' && !freePricingShape.Check(given.pricing)) {
      shapeReader(FreePricing, `${param}.pricing`)(given.pricing);
    }
    return entryOf(given, key, parsePricing(given.pricing ?? null, `${param}.pricing`));
  });
}

const entryOf = (
  given: Omit<Static<typeof EntryInput>, 'pricing'>,
  key: PermissionKey,
  pricing: Pricing | null,
): CatalogEntry => ({
  key,
  displayName: given.display_name ?? null,
  description: given.description ?? null,
  pricing,
  category: given.category ?? null,
  riskLevel: given.risk_level ?? null,
  sla: given.sla
    ? { uptimeBasisPoints: given.sla.uptime_basis_points, responseTimeMs: given.sla.response_time_ms }
    : null,
  platformFeeBasisPoints: given.platform_fee?.basis_points ?? null,
  requiresApproval: given.requires_approval ?? false,
});

const knownPricingShape = Compile(KnownPricing);
const freePricingShape = Compile(FreePricing);

const isPricingModel = (value: unknown): value is PricingModel =>
  pricingModels.some((each) => each === value);

/**
 * An unreadable price of a known model is an error, never "unpriced". Throws `invalid_request` naming the
 * field.
 */
function parsePricing(given: FreeForm | null, at: string): Pricing | null {
  if (given === null) return null;
  if (!isPricingModel(given['model'])) return { model: null, more: given };
  // Compiled again for error messages only: they name the place of the price.
  const known = knownPricingShape.Check(given) ? given : shapeReader(KnownPricing, at)(given);
  const { model, price_cents: priceCents, currency, ...more } = known;
  return { model, priceCents, currency: currency ?? currencyDefault, more };
}

export const renderCatalogEntry = (entry: CatalogEntry): CatalogEntryAnswer => ({
  key: entry.key,
  display_name: entry.displayName,
  description: entry.description,
  pricing: entry.pricing === null ? null : renderPricing(entry.pricing),
  category: entry.category,
  risk_level: entry.riskLevel,
  sla:
    entry.sla === null
      ? null
      : { uptime_basis_points: entry.sla.uptimeBasisPoints, response_time_ms: entry.sla.responseTimeMs },
  platform_fee: entry.platformFeeBasisPoints === null ? null : { basis_points: entry.platformFeeBasisPoints },
  requires_approval: entry.requiresApproval,
});

const renderPricing = (pricing: Pricing): FreeForm =>
  pricing.model === null ? { ...pricing.more } : { ...pricing.more, ...renderKnownPricing(pricing) };

/** The three members with a meaning; null without a known model. */
export const renderPrice = (pricing: Pricing | null): Static<typeof PricingAnswer> | null =>
  pricing === null || pricing.model === null ? null : renderKnownPricing(pricing);

const renderKnownPricing = ({ model, priceCents, currency }: Exclude<Pricing, { model: null }>) => ({
  model,
  price_cents: priceCents,
  currency,
});

/** The hashed and signed content (contract §10). */
export const renderCatalogContent = (content: CatalogContent) => ({
  ...content.more,
  gate_id: content.gateId,
  version: content.version,
  permissions: content.permissions.map(renderCatalogEntry),
  published_at: renderTime(content.publishedAtMs),
  signing_key_id: content.signingKeyId,
});

export const renderCatalog = (catalog: Catalog): CatalogAnswer => ({
  ...renderCatalogContent(catalog),
  content_hash: catalog.contentHash,
  signature: catalog.signature,
});

const entryShape = Compile(EntryAnswer);
const writtenPricingShape = Compile(PricingAnswer);

/** Reads what `renderCatalogEntry` writes; null for anything else. */
export const parseCatalogEntry = (value: unknown): CatalogEntry | null =>
  entryShape.Check(value) ? toEntry(value) : null;

function toEntry(written: CatalogEntryAnswer): CatalogEntry | null {
  const { key, pricing } = written;
  if (!isRequestablePermission(key)) return null;
  const isReadable =
    pricing === null || !isPricingModel(pricing['model']) || writtenPricingShape.Check(pricing);
  return isReadable ? entryOf(written, key, parsePricing(pricing, 'pricing')) : null;
}

/**
 * The terms of a catalog as stored by sidecars and in the gate's row: every permission with its price per
 * call or null, and the permissions that need an approval.
 */
interface WrittenTerms {
  readonly prices: Readonly<Record<string, number | null>>;
  readonly approvals: readonly string[];
}

export function renderCatalogTerms(terms: CatalogTerms): WrittenTerms {
  const all = [...terms];
  return {
    prices: Object.fromEntries(all.map(([key, { priceMicroUsd }]) => [key, priceMicroUsd])),
    approvals: all.filter(([, { requiresApproval }]) => requiresApproval).map(([key]) => key),
  };
}

/**
 * Reads what `renderCatalogTerms` writes. Throws for anything else: an ignored price would permit requests
 * for free, and an ignored approval would permit them without one.
 */
export function parseCatalogTerms({ prices, approvals }: WrittenTerms): CatalogTerms {
  const terms: CatalogTerms = new Map(
    Object.entries(prices).map(([key, price]) => {
      if (!isRequestablePermission(key)) throw new TypeError('a catalog holds permission keys');
      const priceMicroUsd = price === null ? null : parseMicroUsd(price);
      if (price !== null && priceMicroUsd === null)
        throw new TypeError(`the price of ${key} is whole micro-USD`);
      return [key, { priceMicroUsd, requiresApproval: approvals.includes(key) }];
    }),
  );
  for (const key of approvals) {
    if (!isRequestablePermission(key) || !terms.has(key))
      throw new TypeError('only what is offered can need an approval');
  }
  return terms;
}
