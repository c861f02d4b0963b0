import { type Static, Type } from 'typebox';
import { ApiError, invalidRequest } from '../../errors/api-error.ts';
import type { Catalog, CatalogOffer, CatalogTerms } from '../../model/catalog.ts';
import type { Constraints } from '../../model/constraints.ts';
import type { Gate, GateShadow, GateStats } from '../../model/gate.ts';
import { holdDefaults } from '../../model/hold.ts';
import type { StandingApprovalTerms } from '../../model/standing-approval.ts';
import type { Template } from '../../model/template.ts';
import { renderOptionalTime, renderTime, type UnixMillis } from '../../model/time.ts';
import type { TrustTier } from '../../model/trust-tier.ts';
import { ActorAnswer, renderOptionalActor } from '../evidence/audit.ts';
import type { GateBody, ShadowBody } from '../sync/sync-schema.ts';
import {
  CatalogAnswer,
  CatalogPublication,
  parseCatalogPublication,
  renderCatalog,
  renderCatalogTerms,
} from './catalog.ts';
import { renderForms } from './conditions.ts';
import {
  GateConstraints,
  hideFromOlder,
  parseNewConstraints,
  refuseUnknownConstraints,
  renderConstraints,
  renderConstraintsForSidecars,
} from './constraints.ts';
import { closed, Description, FreeForm, Name, nullable, Tier, Timestamp } from './fields.ts';
import { GateRoutes, parseGateRoutes, renderGateRoutes } from './gate-routes.ts';
import { parseLabels, patchedLabels, renderLabels } from './labels.ts';
import { mergePatch } from './merge-patch.ts';
import { PromotionAnswer } from './promotion.ts';
import { readOnly } from './read-only.ts';
import { renderStandingApprovalForSidecars } from './standing-approval.ts';

/** `POST /gates`: both published bodies. `trust_level` and `trust_profile` are synonyms. */
export const GateCreation = closed({
  name: Name,
  description: Type.Optional(Description),
  trust_level: Type.Optional(Tier),
  trust_profile: Type.Optional(Tier),
  /** A merge patch over those of the template: null removes one. */
  constraints: Type.Optional(FreeForm),
  routes: Type.Optional(nullable(GateRoutes)),
  template_id: Type.Optional(Type.String()),
  catalog: Type.Optional(CatalogPublication),
  labels: Type.Optional(FreeForm),
});

/** The read-only members of a gate. */
export const gateReadOnly = {
  gate_id: Type.String(),
  id: Type.String(),
  gate_url: Type.String(),
  status: Type.Literal('active'),
  created_at: Timestamp,
  updated_at: Timestamp,
  last_changed_by: nullable(ActorAnswer),
};

const gateFields = {
  ...gateReadOnly,
  name: Type.String(),
  description: nullable(Type.String()),
  /** Only if it has some. */
  labels: Type.Optional(FreeForm),
  trust_level: Tier,
  trust_profile: Tier,
};

const Stats = Type.Object({
  total_requests: Type.Integer(),
  permits: Type.Integer(),
  blocks: Type.Integer(),
  last_request_at: nullable(Timestamp),
});

/**
 * `PUT /gates/:id`, a JSON merge patch (RFC 7396): null removes an optional member and is refused for a
 * required one.
 */
export const GatePatch = closed({
  name: Type.Optional(nullable(Name)),
  description: Type.Optional(Description),
  trust_level: Type.Optional(nullable(Tier)),
  trust_profile: Type.Optional(nullable(Tier)),
  constraints: Type.Optional(nullable(FreeForm)),
  /** Replaced as a whole; null removes all. */
  routes: Type.Optional(nullable(GateRoutes)),
  labels: Type.Optional(nullable(FreeForm)),
  ...readOnly({ ...gateReadOnly, stats: Stats, promoted: PromotionAnswer }),
});

/** The members of a gate that the list omits. `routes` only if it has some. */
const policyFields = { constraints: GateConstraints, routes: Type.Optional(GateRoutes) };

export const GateAnswer = Type.Object({ ...gateFields, ...policyFields });

/** `catalog`: the catalog published with the gate. */
export const GateCreationAnswer = Type.Object({
  ...gateFields,
  ...policyFields,
  catalog: Type.Optional(CatalogAnswer),
});

/** `promoted` only if a shadow became its policy. */
export const GateWithStatsAnswer = Type.Object({
  ...gateFields,
  ...policyFields,
  stats: Stats,
  promoted: Type.Optional(PromotionAnswer),
});

export const GateListItem = Type.Object({
  ...gateFields,
  request_count: Type.Integer(),
  permit_count: Type.Integer(),
  block_count: Type.Integer(),
  /** Null: it names no approvers. `able`: how many different people could answer its approvals now. */
  approvers: nullable(
    Type.Object({ count: Type.Integer(), independent: Type.Boolean(), able: Type.Integer() }),
  ),
});

export const GateDeletion = Type.Object({
  gate_id: Type.String(),
  id: Type.String(),
  deleted: Type.Literal(true),
  deleted_at: Timestamp,
});

/** The part of a gate that its owner sets. */
export type GatePolicy = Pick<
  Gate,
  'name' | 'description' | 'labels' | 'trustLevel' | 'constraints' | 'routes'
>;

export interface CountedGate extends Gate {
  readonly stats: GateStats;
}

/** A new gate and its first catalog; null: none is published. */
export interface NewGate {
  readonly policy: GatePolicy;
  readonly offer: CatalogOffer | null;
}

/**
 * Reads a new gate. `template` is the one that the body names: it fills in what the body omits and is not
 * referenced later. Throws `invalid_request` naming the field, also for a member from the template.
 */
export function parseGateCreation(body: Static<typeof GateCreation>, template: Template | null): NewGate {
  const trustLevel = readTrustLevel(body) ?? template?.trustLevel ?? null;
  if (trustLevel === null) throw invalidRequest('trust_level', 'trust_level is required.');
  return {
    policy: {
      name: body.name,
      description: body.description ?? null,
      trustLevel,
      constraints: mergeOverTemplate(template, body.constraints ?? {}),
      routes: parseGateRoutes(body.routes ?? []),
      labels: parseLabels(body.labels ?? {}),
    },
    offer: body.catalog === undefined ? null : parseCatalogPublication(body.catalog, 'catalog.'),
  };
}

function mergeOverTemplate(template: Template | null, own: FreeForm): Constraints {
  refuseUnknownConstraints(own);
  if (template === null) return parseGateConstraints(mergePatch({}, own));
  try {
    return parseGateConstraints(mergePatch(renderConstraints(template.constraints), own));
  } catch (error) {
    if (!(error instanceof ApiError) || error.param === null) throw error;
    throw invalidRequest(
      error.param,
      `${error.message} If it comes from the template ${template.templateId}, set it to null.`,
    );
  }
}

/** The policy after the patch. The public shape is merged, and the result must be valid for a new gate. */
export function applyGatePatch(patch: Static<typeof GatePatch>, current: GatePolicy): GatePolicy {
  refuseRemoval(patch);
  refuseUnknownConstraints(patch.constraints ?? {});
  const constraints =
    patch.constraints === undefined
      ? current.constraints
      : parseGateConstraints(mergePatch(renderConstraints(current.constraints), patch.constraints) ?? {});
  return {
    name: patch.name ?? current.name,
    description: patch.description === undefined ? current.description : patch.description,
    trustLevel: readTrustLevel(patch) ?? current.trustLevel,
    constraints,
    routes: patch.routes === undefined ? current.routes : parseGateRoutes(patch.routes ?? []),
    labels: patch.labels === undefined ? current.labels : patchedLabels(current.labels, patch.labels),
  };
}

function refuseRemoval(patch: Static<typeof GatePatch>): void {
  const removed = (['name', 'trust_level', 'trust_profile'] as const).find((name) => patch[name] === null);
  if (removed !== undefined) throw invalidRequest(removed, `${removed} is required and cannot be removed.`);
}

const parseGateConstraints = (value: unknown): Constraints =>
  parseNewConstraints(value, { param: 'constraints', of: 'gate' });

function readTrustLevel(body: {
  readonly trust_level?: TrustTier | null;
  readonly trust_profile?: TrustTier | null;
}): TrustTier | null {
  const { trust_level: level = null, trust_profile: profile = null } = body;
  if (level !== null && profile !== null && level !== profile) {
    throw invalidRequest('trust_profile', 'trust_level and trust_profile are synonyms and must not differ.');
  }
  return level ?? profile;
}

const renderCommon = (gate: Gate, gateHost: string) => ({
  gate_id: gate.gateId,
  id: gate.gateId,
  name: gate.name,
  description: gate.description,
  ...renderLabels(gate.labels),
  trust_level: gate.trustLevel,
  trust_profile: gate.trustLevel,
  gate_url: `${gateHost}/${gate.gateId}`,
  status: 'active' as const,
  created_at: renderTime(gate.createdAtMs),
  updated_at: renderTime(gate.updatedAtMs),
  last_changed_by: renderOptionalActor(gate.lastChangedBy),
});

export const renderGate = (gate: Gate, gateHost: string): Static<typeof GateAnswer> => ({
  ...renderCommon(gate, gateHost),
  constraints: renderConstraints(gate.constraints),
  ...renderRoutes(gate),
});

const renderRoutes = ({ routes }: Pick<Gate, 'routes'>): Pick<Static<typeof GateAnswer>, 'routes'> =>
  routes.length === 0 ? {} : { routes: renderGateRoutes(routes) };

export const renderNewGate = (
  gate: Gate,
  catalog: Catalog | null,
  gateHost: string,
): Static<typeof GateCreationAnswer> => ({
  ...renderGate(gate, gateHost),
  ...(catalog === null ? {} : { catalog: renderCatalog(catalog) }),
});

export const renderGateWithStats = (
  gate: CountedGate,
  promoted: PromotionAnswer | null,
  gateHost: string,
): Static<typeof GateWithStatsAnswer> => ({
  ...renderGate(gate, gateHost),
  stats: {
    total_requests: gate.stats.totalRequests,
    permits: gate.stats.permits,
    blocks: gate.stats.blocks,
    last_request_at: renderOptionalTime(gate.stats.lastRequestAtMs),
  },
  ...(promoted === null ? {} : { promoted }),
});

export const renderGateListItem = (
  gate: CountedGate,
  gateHost: string,
): Omit<Static<typeof GateListItem>, 'approvers'> => ({
  ...renderCommon(gate, gateHost),
  request_count: gate.stats.totalRequests,
  permit_count: gate.stats.permits,
  block_count: gate.stats.blocks,
});

export const renderGateDeletion = (gateId: string, deletedAtMs: UnixMillis): Static<typeof GateDeletion> => ({
  gate_id: gateId,
  id: gateId,
  deleted: true,
  deleted_at: renderTime(deletedAtMs),
});

/** A gate as its sidecars know it. */
export const renderGateForSidecars = (
  gate: Gate,
  standingApprovals: readonly StandingApprovalTerms[],
): GateBody => ({
  gate_id: gate.gateId,
  account_id: gate.accountId,
  mode: gate.mode,
  version: gate.version,
  policy_version: gate.policyVersion,
  ...(gate.policyHash === null ? {} : { policy_hash: gate.policyHash }),
  trust_level: gate.trustLevel,
  ...hideFromOlder(renderConstraintsForSidecars(gate.constraints)),
  ...renderForms(gate.constraints.conditions),
  ...(gate.constraints.approvals?.approvers?.notRequester ? { names_asker: true } : {}),
  ...renderHoldForSidecars(gate),
  ...renderRoutes(gate),
  ...(gate.catalogTerms === null ? {} : renderTermsForSidecars(gate.catalogTerms)),
  ...(standingApprovals.length > 0 && {
    standing_approvals: standingApprovals.map(renderStandingApprovalForSidecars),
  }),
  ...(gate.shadow !== null && { shadow: renderShadowForSidecars(gate.shadow) }),
});

/** Sidecars of 0.3.0 pass it over, so nothing in it is hidden from them. */
const renderShadowForSidecars = (shadow: GateShadow): ShadowBody => ({
  policy_hash: shadow.policyHash,
  expires_at_ms: shadow.expiresAtMs,
  trust_level: shadow.trustLevel,
  constraints: renderConstraintsForSidecars(shadow.constraints),
  ...renderRoutes(shadow),
});

const renderHoldForSidecars = ({ constraints: { holds } }: Gate): Pick<GateBody, 'hold_expires_in_ms'> =>
  holds === null || holds.expiresInMs === holdDefaults.expiresInMs
    ? {}
    : { hold_expires_in_ms: holds.expiresInMs };

function renderTermsForSidecars(terms: CatalogTerms): Pick<GateBody, 'catalog' | 'catalog_approvals'> {
  const { prices, approvals } = renderCatalogTerms(terms);
  return { catalog: prices, ...(approvals.length === 0 ? {} : { catalog_approvals: approvals }) };
}
