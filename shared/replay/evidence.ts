import { type CompiledGate, type CompiledPolicy, compileGate, noGate } from '../decision/compile-gate.ts';
import { compilePassport } from '../decision/compile-passport.ts';
import type { PassportStanding, VerifiedPassport } from '../decision/facts.ts';
import { type DrawnOf, windowsOf } from '../decision/windows-of.ts';
import type { Attestation } from '../model/attestation.ts';
import { type CatalogEntry, type CatalogTerms, catalogTerms } from '../model/catalog.ts';
import type { Constraints } from '../model/constraints.ts';
import type { DigestWords } from '../model/id-digest.ts';
import type { AccountId, ApprovalId, IssuerId, PassportId } from '../model/ids.ts';
import type { Mode } from '../model/mode.ts';
import type { MicroUsd } from '../model/money.ts';
import { isGrantablePermission, type PermissionKey } from '../model/permission.ts';
import type { StandingApprovalTerms } from '../model/standing-approval.ts';
import { latestUnixMs, parseTime, toSeconds, type UnixMillis } from '../model/time.ts';
import { isTrustTier } from '../model/trust-tier.ts';
import { parseCatalogEntry } from '../wire/api/catalog.ts';
import { parseNewConstraints } from '../wire/api/constraints.ts';
import { canonicalName } from '../wire/api/email.ts';
import type { SignedApproval, SignedPassport } from '../wire/evidence/evidence.ts';
import type { SignedPolicy } from '../wire/evidence/policy.ts';

/** What an export states beside its records (contract §9), verified before. */
export type Statement =
  | { readonly policy: SignedPolicy }
  | { readonly catalog: Readonly<Record<string, unknown>> }
  | { readonly passport: SignedPassport }
  | { readonly approval: SignedApproval }
  /** Not used: forms are made of the expressions. */
  | { readonly condition: unknown };

/**
 * Why a decision cannot be decided again from an export alone (docs/replay.md). The words are part of the
 * report.
 */
export type Unjudged =
  | 'form_1'
  | 'members'
  | 'facts'
  | 'policy_missing'
  | 'policy_unknown'
  | 'passport_removed'
  | 'passport_federated'
  | 'passport_history'
  | 'approval_removed'
  | 'approval_before'
  | 'token'
  | 'standing'
  | 'state'
  | 'mode'
  | 'proof'
  | 'request'
  | 'wallet'
  | 'withheld'
  | 'approval'
  | 'units'
  | 'ledger'
  | 'pending';

type Status = PassportStanding['status'];

export interface KnownPassport {
  readonly passport: VerifiedPassport;
  /** In the order of time. */
  readonly changes: readonly { readonly atMs: UnixMillis; readonly status: Status }[];
  /** Earlier changes are left out. */
  readonly isCut: boolean;
}

/** How an approval ended, by its records. */
interface ApprovalEnd {
  /** When it was approved, if no later record takes that back. It may expire later: its use may be voided. */
  readonly approvedMs: UnixMillis | null;
}

/** What later records have made of a PERMIT. */
interface Effect {
  isVoided: boolean;
  /** Of the first record that changes it, the last and the largest one. Null: no record has. */
  amounts: {
    readonly first: number;
    readonly last: number;
    readonly rises: number;
    readonly most: number;
  } | null;
}

/**
 * What an export says beside its decisions: policies, catalogs, passports, approvals, and what later records
 * make of a PERMIT or an approval. Memory: some kilobytes for each policy and catalog, one for each passport
 * and approval, some hundred bytes for each approval that ended and PERMIT that changed.
 */
export class Evidence {
  readonly #policies = new Map<string, Readonly<Record<string, unknown>>>();
  readonly #catalogs = new Map<string, CatalogTerms | null>();
  readonly #passports = new Map<string, KnownPassport | Unjudged>();
  readonly #approvals = new Map<string, SignedApproval['body']>();
  readonly #ends = new Map<string, ApprovalEnd>();
  readonly #used = new Set<string>();
  readonly #effects = new Map<string, Effect>();
  readonly #compiled = new Map<string, CompiledPolicy | Unjudged>();

  learn(statement: Statement): void {
    if ('policy' in statement) this.#policies.set(statement.policy.policy_hash, statement.policy.body);
    else if ('catalog' in statement) this.#learnCatalog(statement.catalog);
    else if ('passport' in statement) {
      const { body } = statement.passport;
      this.#passports.set(body.passport_id, readPassport(body));
    } else if ('approval' in statement) {
      const { body } = statement.approval;
      this.#approvals.set(body.approval_id, body);
    }
  }

  /**
   * How an approval ended, which PERMIT used it, and what became of a PERMIT. Records of a chain come in
   * their order.
   */
  note(record: Attestation): void {
    const { resolution, refersTo, timestampMs } = record;
    const amount = record.amountMicroUsd ?? 0;
    if (resolution === null && isPresented(record)) this.#used.add(record.approvalId);
    if (resolution === null || refersTo === null) return;
    if (refersTo.startsWith('appr_')) {
      const known = resolution === 'voided' ? null : (this.#ends.get(refersTo)?.approvedMs ?? null);
      this.#ends.set(refersTo, { approvedMs: known ?? (resolution === 'approved' ? timestampMs : null) });
      return;
    }
    const effect = this.#effects.get(refersTo) ?? { isVoided: false, amounts: null };
    this.#effects.set(refersTo, effect);
    if (resolution === 'voided') {
      effect.isVoided = true;
      return;
    }
    const known = effect.amounts ?? { first: amount, last: amount, rises: 0, most: amount };
    effect.amounts = {
      first: known.first,
      last: amount,
      rises: known.rises + Math.max(0, amount - known.last),
      most: Math.max(known.most, amount),
    };
  }

  isVoided(id: string): boolean {
    return this.#effects.get(id)?.isVoided === true;
  }

  /**
   * What a PERMIT has taken of its windows at the least: an overrun is taken when it is reported, and a
   * refund may be of either.
   */
  leastTaken(id: string, amount: number): number {
    const amounts = this.#effects.get(id)?.amounts ?? null;
    if (amounts === null) return amount;
    const rises = amounts.rises + Math.max(0, amounts.first - amount);
    return Math.max(0, Math.min(amount, amounts.last - rises));
  }

  /** What a PERMIT may have held of its windows at one moment at the most, before it was voided too. */
  mostTaken(id: string, amount: number): number {
    return Math.max(amount, this.#effects.get(id)?.amounts?.most ?? 0);
  }

  /** By a PERMIT, which counts its money then. */
  isUsed(approvalId: string): boolean {
    return this.#used.has(approvalId);
  }

  endOf(approvalId: string): ApprovalEnd | null {
    return this.#ends.get(approvalId) ?? null;
  }

  /** That the record names; null: none, or the file lacks it. */
  approvalOf({ approvalId }: Attestation): SignedApproval['body'] | null {
    return approvalId === null ? null : this.approval(approvalId);
  }

  approval(approvalId: string): SignedApproval['body'] | null {
    return this.#approvals.get(approvalId) ?? null;
  }

  passport(passportId: string): KnownPassport | Unjudged {
    return this.#passports.get(passportId) ?? 'passport_removed';
  }

  /** What decided, for the gate's account; `mode`: the gate's, which no policy says. */
  policy(record: Attestation, mode: Mode): CompiledPolicy | Unjudged {
    const { gateId, policyHash, asserted } = record;
    if (asserted === null) return 'form_1';
    // A gate is asked by its own account.
    const accountId = record.sourceAccount as AccountId;
    if (gateId === null) return noGate({ accountId, mode });
    if (policyHash === null) return 'policy_missing';
    const key = `${policyHash} ${gateId} ${mode}`;
    const known = this.#compiled.get(key) ?? this.#compile(policyHash, { gateId, accountId, mode });
    this.#compiled.set(key, known);
    return known;
  }

  #compile(policyHash: string, gate: PolicyHolder): CompiledPolicy | Unjudged {
    const body = this.#policies.get(policyHash);
    if (body === undefined) return 'policy_missing';
    const { catalog_hash: hash } = body;
    const catalog = typeof hash === 'string' ? (this.#catalogs.get(hash) ?? null) : null;
    return compileStatedPolicy({ ...gate, policyHash }, body, catalog) ?? 'policy_unknown';
  }

  #learnCatalog({ content_hash: hash, permissions }: Readonly<Record<string, unknown>>): void {
    const entries = Array.isArray(permissions) ? permissions : [null];
    this.#catalogs.set(String(hash), statedCatalogTerms(entries));
  }
}

type PolicyHolder = Pick<Parameters<typeof compileGate>[0], 'gateId' | 'accountId' | 'mode'>;

/** Null: this version does not know all that is in it. `catalog`: the one that it names. */
export function compileStatedPolicy(
  gate: PolicyHolder & { readonly policyHash: string },
  body: Readonly<Record<string, unknown>>,
  catalog: CatalogTerms | null,
): CompiledGate | null {
  const { trust_level: trustLevel, catalog_hash: hash } = body;
  const constraints = constraintsOf(body['constraints'], 'gate');
  if (constraints === null || !isTrustTier(trustLevel)) return null;
  if (typeof hash === 'string' && catalog === null) return null;
  return compileGate({ ...gate, trustLevel, constraints, version: 1, policyVersion: 1 }, catalog);
}

/** Null: this version does not know all entries. */
export function statedCatalogTerms(entries: readonly unknown[]): CatalogTerms | null {
  const parsed = entries.map(parseCatalogEntry);
  const isKnown = (entry: CatalogEntry | null): entry is CatalogEntry => entry !== null;
  return parsed.every(isKnown) ? catalogTerms(parsed) : null;
}

/** Whether it is a PERMIT by an approval that was asked for. */
export const isPresented = (
  record: Attestation,
): record is Attestation & { readonly approvalId: ApprovalId } =>
  record.decision === 'PERMIT' && record.approvalId?.startsWith('appr_') === true;

/** Null: this version does not know all that is in it, or a condition is faulty. */
function constraintsOf(value: unknown, of: 'gate' | 'passport'): Constraints | null {
  try {
    return parseNewConstraints(value, { param: 'constraints', of });
  } catch {
    return null;
  }
}

function readPassport(body: SignedPassport['body']): KnownPassport | Unjudged {
  if (body.removed === true || body.token_hash === undefined) return 'passport_removed';
  // What it may do is in each of its tokens.
  if (body.token_hash === 'federated') return 'passport_federated';
  const passport = compileStatedPassport(body);
  if (passport === null) return 'policy_unknown';
  const changes = (body.status_changes ?? []).map(({ at, status }) => ({
    atMs: parseTime(at) ?? latestUnixMs,
    status,
  }));
  return { passport, changes, isCut: (body.status_changes_omitted ?? 0) > 0 };
}

/** A passport of this service as it was issued. Null: this version does not know all that is in it. */
export function compileStatedPassport(body: SignedPassport['body']): VerifiedPassport | null {
  const { permissions = [], trust_tier: trustTier = 'L1', issued_at: issuedAt = '' } = body;
  const constraints = constraintsOf(body.constraints, 'passport');
  const issuedAtMs = parseTime(issuedAt);
  const expiresAtMs = typeof body.expires_at === 'string' ? parseTime(body.expires_at) : null;
  if (constraints === null || issuedAtMs === null) return null;
  return compilePassport(
    {
      passportId: body.passport_id as PassportId,
      issuerId: body.issuer_id as IssuerId,
      accountId: body.account_id as AccountId,
      mode: body.mode as Mode,
      agentId: body.agent_id ?? '',
      permissions: permissions.filter(isGrantablePermission),
      trustTier,
      constraints,
      notBeforeS: toSeconds(issuedAtMs),
      expiresAtS: expiresAtMs === null ? null : toSeconds(expiresAtMs),
      publicKey: body.public_key ?? '',
      owner: canonicalName(body.owner ?? null),
      user: null,
      // Its records name the wallet, wherever it was told.
      hasWallet: false,
    },
    {
      keyId: body.token_signing_key_id ?? '',
      tokenHash: body.token_hash ?? '',
      digests: new Int32Array(0) as DigestWords,
    },
  );
}

/** Null: it does not say what it permits. */
export function standingTermsOf(body: SignedApproval['body']): StandingApprovalTerms | null {
  const { each_micro_usd: each, total_micro_usd: total, permission_key: permission, owner = null } = body;
  const expiresAtMs = parseTime(body.expires_at ?? '');
  if (each === undefined || total === undefined || typeof permission !== 'string' || expiresAtMs === null)
    return null;
  return {
    standingApprovalId: body.approval_id as StandingApprovalTerms['standingApprovalId'],
    passportId: owner === null ? (body.passport_id as PassportId) : null,
    owner: canonicalName(owner),
    permissionKey: permission as PermissionKey,
    eachMicroUsd: each as MicroUsd,
    totalMicroUsd: total as MicroUsd,
    expiresAtMs,
  };
}

/** The windows that a PERMIT takes from, but those of wallets, of which an export says nothing. */
export const drawnBy = (
  { gateId }: Attestation,
  { spendWindows, rateWindows }: CompiledPolicy,
  passport: VerifiedPassport,
): DrawnOf => windowsOf({ gate: gateId && { gateId, spendWindows, rateWindows }, passport });
