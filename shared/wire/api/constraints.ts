import { type Static, Type } from 'typebox';
import { type ApiError, invalidRequest } from '../../errors/api-error.ts';
import { approvalExpiryMsDefault } from '../../model/approval.ts';
import {
  type ApprovalRule,
  type ApproverRule,
  type Constraints,
  type HoldRule,
  holdExpiries,
  holdOverruns,
  type PiiControls,
  piiModes,
  piiTypes,
  type RateLimits,
  type SpendLimits,
  type TrustedIssuerList,
  unpricedRules,
} from '../../model/constraints.ts';
import { holdDefaults } from '../../model/hold.ts';
import { type IssuerId, isId, type UserId } from '../../model/ids.ts';
import { limits } from '../../model/limits.ts';
import { type MicroUsd, parseUsd, renderUsd } from '../../model/money.ts';
import {
  isGrantablePermission,
  type PermissionKey,
  permissionCharsMax,
  permissionsPerPassportMax,
} from '../../model/permission.ts';
import { type ProofDemand, proofReplays } from '../../model/proof.ts';
import { secondMs } from '../../model/time.ts';
import { approverRoles } from '../../model/user.ts';
import { Conditions, parseConditions, refuseFaultyConditions, renderCondition } from './conditions.ts';
import { parseDomainPattern } from './domain.ts';
import { closed, type FreeForm } from './fields.ts';
import { shapeReader } from './shape.ts';

const alertAtDefault = 0.8;

const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
/** At most 6 decimals and 1e9, which `parseUsd` checks. */
const Usd = Type.Number({ minimum: 0 });
const Per = Type.Enum(['gate', 'passport', 'user']);
const Domains = Type.Array(Type.String({ maxLength: 4 * limits.domainCharsMax }), {
  maxItems: limits.allowedDomainsMax,
});
const approvals = {
  above_usd: Type.Optional(Usd),
  permissions: Type.Optional(
    Type.Array(Type.String({ maxLength: permissionCharsMax }), { maxItems: permissionsPerPassportMax }),
  ),
  expires_in_s: Type.Optional(Type.Integer({ minimum: 1, maximum: limits.approvalExpiryMsMax / secondMs })),
};
const Approvers = closed({
  roles: Type.Optional(Type.Array(Type.Enum(approverRoles), { minItems: 1 })),
  users: Type.Optional(Type.Array(Type.String(), { minItems: 1, maxItems: limits.approversNamedMax })),
  count: Type.Optional(Type.Integer({ minimum: 1, maximum: limits.approversCountMax })),
  not_requester: Type.Optional(Type.Boolean()),
  not_owner: Type.Optional(Type.Boolean()),
  independent: Type.Optional(Type.Boolean()),
});
const rates = {
  requests_per_minute: Type.Optional(Count),
  requests_per_hour: Type.Optional(Count),
  requests_per_day: Type.Optional(Count),
};
const spends = {
  per_transaction_usd: Type.Optional(Usd),
  daily_usd: Type.Optional(Usd),
  monthly_usd: Type.Optional(Usd),
  unpriced: Type.Optional(Type.Enum(unpricedRules)),
};

export const RequiredProof = closed({
  mode: Type.Enum(['required']),
  replay: Type.Optional(Type.Enum(proofReplays)),
});
const ProofOfPossession = Type.Union([Type.Enum(['off', 'required']), RequiredProof]);

/** The constraints of a gate or template, in the public shape. */
export const GateConstraints = closed({
  rate_limits: Type.Optional(closed({ ...rates, per: Type.Optional(Per) })),
  spend_limits: Type.Optional(
    closed({
      ...spends,
      per: Type.Optional(Per),
      alert_at: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 1 })),
    }),
  ),
  allowed_domains: Type.Optional(Domains),
  pii_controls: Type.Optional(
    closed({
      mode: Type.Enum(piiModes),
      types: Type.Optional(Type.Array(Type.Enum(piiTypes), { minItems: 1 })),
    }),
  ),
  approvals: Type.Optional(
    closed({
      ...approvals,
      approvers: Type.Optional(Approvers),
      passkey: Type.Optional(Type.Boolean()),
    }),
  ),
  trusted_issuers: Type.Optional(Type.Array(Type.String(), { maxItems: limits.trustedIssuersMax })),
  proof_of_possession: Type.Optional(ProofOfPossession),
  holds: Type.Optional(
    closed({
      expires_in_s: Type.Optional(
        Type.Integer({
          minimum: limits.holdExpiryMsMin / secondMs,
          maximum: limits.holdExpiryMsMax / secondMs,
        }),
      ),
      on_expiry: Type.Optional(Type.Enum(holdExpiries)),
      overrun: Type.Optional(Type.Enum(holdOverruns)),
    }),
  ),
  conditions: Type.Optional(Conditions),
});
export type GateConstraints = Static<typeof GateConstraints>;

/**
 * Refuses unknown names at every level of a merge patch. The merge would hide them: a null under a misspelt
 * name removes nothing, and its sender would believe it did.
 */
export const refuseUnknownConstraints = (patch: FreeForm): void =>
  refuseUnknownBelow('', patch, GateConstraints);

function refuseUnknownBelow(at: string, patch: object, schema: object): void {
  // A list is replaced as a whole, and its shape is checked after the merge.
  if (!('properties' in schema) || Array.isArray(patch)) return;
  const known = new Map(Object.entries(schema.properties as Readonly<Record<string, object>>));
  for (const [name, value] of Object.entries(patch)) {
    const below = known.get(name);
    if (below === undefined) throw unknownConstraint(`${at}${name}`);
    if (typeof value === 'object' && value !== null) refuseUnknownBelow(`${at}${name}.`, value, below);
  }
}

const unknownConstraint = (path: string): ApiError =>
  invalidRequest(`constraints.${path}`, `constraints.${path} is not a constraint.`);

/** The constraints that a passport may carry. Without `per`: they always count one passport. */
export const PassportConstraints = closed({
  rate_limits: Type.Optional(closed(rates)),
  spend_limits: Type.Optional(closed(spends)),
  allowed_domains: Type.Optional(Domains),
  approvals: Type.Optional(closed(approvals)),
  proof_of_possession: Type.Optional(ProofOfPossession),
  conditions: Type.Optional(Conditions),
});

const readConstraints = {
  gate: shapeReader(GateConstraints, 'constraints'),
  template: shapeReader(GateConstraints, 'constraints'),
  passport: shapeReader(PassportConstraints, 'constraints'),
} as const;

export const noConstraints: Constraints = Object.freeze({
  rateLimits: null,
  spendLimits: null,
  allowedDomains: null,
  piiControls: null,
  approvals: null,
  trustedIssuers: null,
  proofOfPossession: 'off',
  holds: null,
  conditions: Object.freeze([]),
});

/**
 * The same of what a caller writes: its expressions are checked, too. Throws `invalid_request` for one that
 * is not sound.
 */
export function parseNewConstraints(
  value: unknown,
  where: Parameters<typeof parseConstraints>[1],
): Constraints {
  const constraints = parseConstraints(value, where);
  refuseFaultyConditions(constraints.conditions, `${where.param}.conditions`);
  return constraints;
}

/**
 * Reads all constraints of a gate (after template and merge patch), a template or a passport: absent is not
 * configured. Throws `invalid_request` naming the field for an unknown key or a wrong value.
 */
export function parseConstraints(
  value: unknown,
  where: { readonly param: 'constraints'; readonly of: 'gate' | 'template' | 'passport' },
): Constraints {
  const given: GateConstraints = readConstraints[where.of](value);
  return {
    rateLimits: given.rate_limits === undefined ? null : parseRateLimits(given.rate_limits),
    spendLimits:
      given.spend_limits === undefined
        ? null
        : parseSpendLimits(given.spend_limits, `${where.param}.spend_limits`),
    allowedDomains:
      given.allowed_domains === undefined
        ? null
        : parseDomains(given.allowed_domains, `${where.param}.allowed_domains`),
    piiControls: given.pii_controls === undefined ? null : parsePiiControls(given.pii_controls),
    approvals:
      given.approvals === undefined ? null : parseApprovals(given.approvals, `${where.param}.approvals`),
    trustedIssuers:
      given.trusted_issuers === undefined
        ? null
        : parseTrustedIssuers(given.trusted_issuers, `${where.param}.trusted_issuers`),
    proofOfPossession: parseProofDemand(given.proof_of_possession),
    holds: given.holds === undefined ? null : parseHolds(given.holds),
    conditions: parseConditions(given.conditions ?? [], `${where.param}.conditions`),
  };
}

function parseProofDemand(given: GateConstraints['proof_of_possession']): ProofDemand {
  if (typeof given === 'object') return given.replay ?? 'sidecar';
  return given === 'required' ? 'sidecar' : 'off';
}

const parseRateLimits = (given: NonNullable<GateConstraints['rate_limits']>): RateLimits => ({
  requestsPerMinute: given.requests_per_minute ?? null,
  requestsPerHour: given.requests_per_hour ?? null,
  requestsPerDay: given.requests_per_day ?? null,
  per: given.per ?? 'gate',
});

const parseSpendLimits = (
  given: NonNullable<GateConstraints['spend_limits']>,
  param: string,
): SpendLimits => ({
  perTransactionMicroUsd: parseMoney(given.per_transaction_usd, `${param}.per_transaction_usd`),
  dailyMicroUsd: parseMoney(given.daily_usd, `${param}.daily_usd`),
  monthlyMicroUsd: parseMoney(given.monthly_usd, `${param}.monthly_usd`),
  per: given.per ?? 'gate',
  alertAt: given.alert_at ?? alertAtDefault,
  unpriced: given.unpriced ?? 'block',
});

function parseMoney(amountUsd: number | undefined, param: string): MicroUsd | null {
  if (amountUsd === undefined) return null;
  const amount = parseUsd(amountUsd);
  if (amount === null) throw invalidRequest(param, `${param} must be at most 1e9, with at most 6 decimals.`);
  return amount;
}

function parseDomains(given: readonly string[], param: string): readonly string[] {
  const patterns = given.map((text, index) => {
    const pattern = parseDomainPattern(text);
    if (pattern !== null) return pattern;
    throw invalidRequest(
      `${param}.${index}`,
      `${param}.${index} must be a domain such as api.example.com, or *.example.com for all below one.`,
    );
  });
  return [...new Set(patterns)];
}

const parsePiiControls = (given: NonNullable<GateConstraints['pii_controls']>): PiiControls => ({
  mode: given.mode,
  types: given.types === undefined ? piiTypes : [...new Set(given.types)],
});

const parseApprovals = (given: NonNullable<GateConstraints['approvals']>, param: string): ApprovalRule => ({
  aboveMicroUsd: parseMoney(given.above_usd, `${param}.above_usd`),
  permissions: parsePermissions(given.permissions ?? [], `${param}.permissions`),
  expiresInMs: given.expires_in_s === undefined ? approvalExpiryMsDefault : given.expires_in_s * secondMs,
  approvers: given.approvers === undefined ? null : parseApprovers(given.approvers, `${param}.approvers`),
  passkey: given.passkey ?? false,
});

const parseHolds = (given: NonNullable<GateConstraints['holds']>): HoldRule => ({
  expiresInMs: given.expires_in_s === undefined ? holdDefaults.expiresInMs : given.expires_in_s * secondMs,
  onExpiry: given.on_expiry ?? holdDefaults.onExpiry,
  overrun: given.overrun ?? holdDefaults.overrun,
});

type GivenApprovers = NonNullable<NonNullable<GateConstraints['approvals']>['approvers']>;

/** Whether these people exist is checked where the gate is written (people/check-approvers.ts). */
function parseApprovers(given: GivenApprovers, param: string): ApproverRule {
  return {
    roles: given.roles === undefined ? null : [...new Set(given.roles)],
    users: given.users === undefined ? null : parseUsers(given.users, `${param}.users`),
    count: given.count ?? 1,
    notRequester: given.not_requester ?? true,
    notOwner: given.not_owner ?? false,
    independent: given.independent ?? false,
  };
}

function parseUsers(given: readonly string[], param: string): readonly UserId[] {
  const users = given.map((text, index) => {
    if (isId('usr', text)) return text;
    throw invalidRequest(`${param}.${index}`, `${param}.${index} must be a user_id (usr_...).`);
  });
  return [...new Set(users)];
}

function parsePermissions(given: readonly string[], param: string): readonly PermissionKey[] {
  const keys = given.map((text, index) => {
    if (isGrantablePermission(text)) return text;
    throw invalidRequest(`${param}.${index}`, `${param}.${index} must be <area>:<action> in lower case.`);
  });
  return [...new Set(keys)];
}

/** Stands in `trusted_issuers` for every issuer of the gate's account. */
const ownIssuers = 'own';

function parseTrustedIssuers(given: readonly string[], param: string): TrustedIssuerList | 'any' {
  if (given.length === 1 && given[0] === '*') return 'any';
  const named = new Set<IssuerId>();
  let ownAt: number | null = null;
  for (const [index, text] of given.entries()) {
    if (isId('iss', text)) named.add(text);
    else if (text === ownIssuers) ownAt ??= named.size;
    else {
      throw invalidRequest(
        `${param}.${index}`,
        `${param}.${index} must be an issuer_id or "own"; ["*"] alone means every issuer.`,
      );
    }
  }
  const list = { own: ownAt !== null, named: [...named] };
  return ownAt === null || ownAt === 0 ? list : { ...list, ownAt };
}

function renderTrustedIssuers(trusted: TrustedIssuerList | 'any'): string[] {
  if (trusted === 'any') return ['*'];
  const named: string[] = [...trusted.named];
  return trusted.own ? named.toSpliced(trusted.ownAt ?? 0, 0, ownIssuers) : named;
}

/**
 * The public shape, normalised: domains canonical, no duplicates, and no defaults, so that a reader sees only
 * what was chosen. `parseConstraints` of the result gives the same constraints again.
 */
export function renderConstraints(constraints: Constraints): GateConstraints {
  const { rateLimits, spendLimits, allowedDomains, piiControls, approvals, trustedIssuers } = constraints;
  return {
    ...(rateLimits === null ? {} : { rate_limits: renderRateLimits(rateLimits) }),
    ...(spendLimits === null ? {} : { spend_limits: renderSpendLimits(spendLimits) }),
    ...(allowedDomains === null ? {} : { allowed_domains: [...allowedDomains] }),
    ...(piiControls === null ? {} : { pii_controls: renderPiiControls(piiControls) }),
    ...(approvals === null ? {} : { approvals: renderApprovals(approvals) }),
    ...(trustedIssuers === null ? {} : { trusted_issuers: renderTrustedIssuers(trustedIssuers) }),
    ...renderProofDemand(constraints.proofOfPossession),
    ...(constraints.holds === null ? {} : { holds: renderHolds(constraints.holds) }),
    ...(constraints.conditions.length === 0
      ? {}
      : { conditions: constraints.conditions.map(renderCondition) }),
  };
}

function renderProofDemand(demand: ProofDemand): Pick<GateConstraints, 'proof_of_possession'> {
  if (demand === 'off') return {};
  return { proof_of_possession: demand === 'sidecar' ? 'required' : { mode: 'required', replay: demand } };
}

const renderRateLimits = (rate: RateLimits): NonNullable<GateConstraints['rate_limits']> => ({
  ...(rate.requestsPerMinute === null ? {} : { requests_per_minute: rate.requestsPerMinute }),
  ...(rate.requestsPerHour === null ? {} : { requests_per_hour: rate.requestsPerHour }),
  ...(rate.requestsPerDay === null ? {} : { requests_per_day: rate.requestsPerDay }),
  ...(rate.per === 'gate' ? {} : { per: rate.per }),
});

const renderSpendLimits = (spend: SpendLimits): NonNullable<GateConstraints['spend_limits']> => ({
  ...(spend.perTransactionMicroUsd === null
    ? {}
    : { per_transaction_usd: renderUsd(spend.perTransactionMicroUsd) }),
  ...(spend.dailyMicroUsd === null ? {} : { daily_usd: renderUsd(spend.dailyMicroUsd) }),
  ...(spend.monthlyMicroUsd === null ? {} : { monthly_usd: renderUsd(spend.monthlyMicroUsd) }),
  ...(spend.per === 'gate' ? {} : { per: spend.per }),
  ...(spend.alertAt === alertAtDefault ? {} : { alert_at: spend.alertAt }),
  ...(spend.unpriced === 'block' ? {} : { unpriced: spend.unpriced }),
});

const renderPiiControls = (pii: PiiControls): NonNullable<GateConstraints['pii_controls']> => ({
  mode: pii.mode,
  // By identity: a list that names all types is not the default.
  ...(pii.types === piiTypes ? {} : { types: [...pii.types] }),
});

const renderApprovals = (rule: ApprovalRule): NonNullable<GateConstraints['approvals']> => ({
  ...(rule.aboveMicroUsd === null ? {} : { above_usd: renderUsd(rule.aboveMicroUsd) }),
  ...(rule.permissions.length === 0 ? {} : { permissions: [...rule.permissions] }),
  ...(rule.expiresInMs === approvalExpiryMsDefault ? {} : { expires_in_s: rule.expiresInMs / secondMs }),
  ...(rule.approvers === null ? {} : { approvers: renderApprovers(rule.approvers) }),
  ...(rule.passkey ? { passkey: true } : {}),
});

const renderHolds = (rule: HoldRule): NonNullable<GateConstraints['holds']> => ({
  ...(rule.expiresInMs === holdDefaults.expiresInMs ? {} : { expires_in_s: rule.expiresInMs / secondMs }),
  ...(rule.onExpiry === holdDefaults.onExpiry ? {} : { on_expiry: rule.onExpiry }),
  ...(rule.overrun === holdDefaults.overrun ? {} : { overrun: rule.overrun }),
});

const renderApprovers = ({ roles, users, count, ...rule }: ApproverRule): GivenApprovers => ({
  ...(roles === null ? {} : { roles: [...roles] }),
  ...(users === null ? {} : { users: [...users] }),
  ...(count === 1 ? {} : { count }),
  ...(rule.notRequester ? {} : { not_requester: false }),
  ...(rule.notOwner ? { not_owner: true } : {}),
  ...(rule.independent ? { independent: true } : {}),
});

/**
 * Without what binds the control plane alone: a sidecar asks for an approval, and has no part in its answer.
 * One of the version before would refuse members that it does not know.
 */
export const renderConstraintsForSidecars = (constraints: Constraints): GateConstraints =>
  renderConstraints({
    ...constraints,
    holds: null,
    approvals:
      constraints.approvals === null ? null : { ...constraints.approvals, approvers: null, passkey: false },
  });

/** What sidecars are told of constraints in the public shape. */
export interface ToldConstraints {
  readonly constraints: GateConstraints;
  /** RFC 7396; absent: they say it all. For those of 0.3.0 as well. */
  readonly constraints_patch?: Readonly<Record<string, unknown>>;
  /** Another one after it, for those that know conditions and limits per user. */
  readonly conditions_patch?: Readonly<Record<string, unknown>>;
}

/**
 * Version 0.2.0 cannot read a required proof of possession, and 0.3.0 neither conditions nor limits per user,
 * and would go on with the gate as it was: they are told a gate that trusts no issuer, and the truth stands
 * in patches that they pass over.
 */
export function hideFromOlder(constraints: GateConstraints): ToldConstraints {
  const { proof_of_possession: proof, conditions = [], ...told } = constraints;
  const { trusted_issuers: trusted = null, rate_limits: rates, spend_limits: spend, ...others } = told;
  const noIssuer = { ...others, trusted_issuers: [] };
  const demand = proof === undefined || proof === 'off' ? {} : { proof_of_possession: proof };
  const limited = {
    ...(rates !== undefined && { rate_limits: rates }),
    ...(spend !== undefined && { spend_limits: spend }),
  };
  const isPerUser = rates?.per === 'user' || spend?.per === 'user';
  const newer = { ...(isPerUser && limited), ...(conditions.length > 0 && { conditions }) };
  const readable = isPerUser ? noIssuer : { ...noIssuer, ...limited };
  if (Object.keys(newer).length > 0)
    return { constraints: readable, conditions_patch: { ...demand, trusted_issuers: trusted, ...newer } };
  return 'proof_of_possession' in demand
    ? { constraints: readable, constraints_patch: { trusted_issuers: trusted, ...demand } }
    : { constraints };
}
