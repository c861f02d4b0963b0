import { demandedApprovalMs } from '../decision/check-approval.ts';
import { checkIssuer } from '../decision/check-issuer.ts';
import { grants } from '../decision/check-permission.ts';
import { demandedProof } from '../decision/check-proof.ts';
import { lacksAmountToSpend } from '../decision/check-spend.ts';
import type { CompiledGate, CompiledPolicy } from '../decision/compile-gate.ts';
import { decide } from '../decision/decide.ts';
import type {
  Decision,
  PassportStanding,
  QuotaView,
  RequestFacts,
  VerifiedPassport,
  WalletView,
  WindowView,
} from '../decision/facts.ts';
import type { AttestationRecord } from '../model/attestation.ts';
import type { CheckName, DecisionReason } from '../model/decision.ts';
import type { StandingApprovalId } from '../model/ids.ts';
import { limits } from '../model/limits.ts';
import type { PiiScan } from '../model/pii.ts';
import type { UnixMillis } from '../model/time.ts';
import type { Verdict } from './difference.ts';

/** Why a record does not say what another policy decides (docs/backtest.md); the words are in reports. */
export type Undecided =
  | 'form_1'
  | 'members'
  | 'policy_missing'
  | 'policy_unknown'
  | 'passport_removed'
  | 'passport_federated'
  | 'token'
  | 'state'
  | 'standing'
  | 'proof'
  | 'routes'
  | 'facts'
  | 'withheld'
  | 'personal_data'
  | 'request'
  | 'price'
  | 'approval'
  | 'pending'
  | 'units'
  | 'wallet'
  | 'ledger';

/** A policy that was in force, and which of its parts the other one has as well. */
export interface FormerPolicy {
  readonly policy: CompiledPolicy;
  readonly hash: string;
  readonly has: Readonly<Record<SamePart, boolean>>;
}

export type SamePart = 'trust' | 'routes' | 'domains' | 'pii' | 'spend' | 'rate' | 'conditions';

/** The policy to try. */
export interface OtherPolicy {
  /** Without its conditions. */
  readonly gate: CompiledGate;
  readonly hash: string;
  readonly conditions: Conditioned;
}

/** For which permissions each condition is asked; null: for all. */
export type Conditioned = readonly (ReadonlySet<string> | null)[];

export interface PastPassport {
  /** As issued, for all time. */
  readonly passport: VerifiedPassport;
  /** What it may do is in each of its tokens. */
  readonly isFederated: boolean;
  /** Its issuer was active all the time. */
  readonly isIssuerActive: boolean;
  /** Its own, which are no part of `passport`. */
  readonly conditions: Conditioned;
}

/** A decision on record with what is known of it. */
export interface Past {
  readonly record: AttestationRecord;
  /** Null: no token verified. */
  readonly known: PastPassport | null;
  readonly former: FormerPolicy;
}

/** What windows have left; `open`: what they may have as well, and why that is not known. */
export interface PastWindows {
  readonly quota: Pick<QuotaView, 'spend' | 'rate'>;
  readonly open: { readonly quota: Pick<QuotaView, 'spend' | 'rate'>; readonly cause: Undecided } | null;
}

/** Whether what others left in wallets may have been less, or more, under the other policy. */
export interface WalletDrift {
  readonly mayBeFuller: boolean;
  readonly mayBeEmptier: boolean;
}

/** The same whatever a gate demands. */
const ofPassportAlone = new Set<DecisionReason | null>([
  'passport_not_yet_valid',
  'passport_expired',
  'passport_revoked',
  'passport_suspended',
  'passport_unknown_key',
  'issuer_keys_stale',
  'mode_mismatch',
]);

const refusedTokens = new Set<DecisionReason | null>([
  'passport_malformed',
  'passport_signature_invalid',
  'passport_unknown_key',
]);

/** What a presented approval was. */
const presentedStates: Partial<Record<DecisionReason, RequestFacts['approval']>> = {
  approval_denied: 'denied',
  approval_expired: 'expired',
  approval_used: 'used',
  approval_mismatch: 'mismatch',
};

/** Reasons of the checks of the cost, and after them. */
const ofCost = new Set<DecisionReason | null>([
  'currency_unsupported',
  'amount_missing',
  'spend_limit_exceeded',
  'rate_limit_exceeded',
  'wallet_limit_exceeded',
  'approvals_pending_exceeded',
]);

/** A request with an approval may get these; others it would have got before it asked for one. */
const besideApproval = new Set<DecisionReason | null>([
  'state_stale',
  'proof_missing',
  'proof_invalid',
  'proof_replayed',
  'issuer_untrusted',
  'quota_unavailable',
  'spend_limit_exceeded',
  'rate_limit_exceeded',
  'wallet_limit_exceeded',
  'wallet_frozen',
]);

export const verdictOnRecord = ({ decision, reason, carried }: AttestationRecord): Verdict => ({
  outcome: decision,
  reason,
  condition: reason?.startsWith('condition_') === true ? (carried?.conditions?.at(-1) ?? null) : null,
});

interface Facts {
  readonly policy: CompiledPolicy;
  readonly passport: VerifiedPassport;
  readonly standing: PassportStanding;
  readonly request: RequestFacts;
  readonly quota: QuotaView;
}

/** What may have been otherwise, and why that is not known. */
interface Open {
  readonly cause: Undecided;
  readonly otherwise: Partial<Facts>;
}

export type DecidedAgain =
  | (Verdict & { readonly decision: Decision | null })
  | { readonly undecided: Undecided };

/**
 * What the other policy says to the request of a record. Facts that the record or the database has are taken
 * from there; of the others each is tried both ways, and where that changes the answer it is undecided. So an
 * answer is one that the policy would have given, whatever is not known.
 */
export function decideAgain(
  past: Past,
  other: OtherPolicy,
  { windows, drift }: { readonly windows: PastWindows; readonly drift: WalletDrift },
): DecidedAgain {
  const { record, known, former } = past;
  const live = { ...verdictOnRecord(record), decision: null };
  const { reason } = record;
  if (known === null) return refusedTokens.has(reason) || former.has.trust ? live : { undecided: 'token' };
  const isSamePolicy = former.hash === other.hash;
  if (ofPassportAlone.has(reason) || (isSamePolicy && reason === 'quota_unavailable')) return live;
  // What comes before conditions blocks as well.
  if (former.has.conditions && reason?.startsWith('condition_') === true) return live;
  if (isSamePolicy && (record.carried?.conditions ?? []).length > 0) return live;
  const read = new RecordReader(past, other, isSamePolicy);
  const { facts, open } = read.facts(windows, drift);
  const again = decideOn(facts, record.timestampMs);
  // A condition may have asked for the approval: what it read is the same.
  const isLive =
    again.outcome === record.decision || (record.decision === 'SUSPEND' && again.outcome === 'PERMIT');
  if (isSamePolicy && isLive) return { ...live, decision: again };
  const failed = conditionsOf(past, other) === 'unknown' ? conditionNotMet(again) : again;
  if (!agree(record, again, failed)) return { undecided: 'facts' };
  for (const { cause, otherwise } of open)
    if (!agree(record, again, decideOn({ ...facts, ...otherwise }, record.timestampMs)))
      return { undecided: cause };
  if (reason === 'quota_unavailable' && again.outcome !== 'BLOCK') return { undecided: 'ledger' };
  if (reason === 'approvals_pending_exceeded' && again.outcome === 'SUSPEND')
    return isSamePolicy ? live : { undecided: 'pending' };
  return { outcome: again.outcome, reason: again.reason, condition: null, decision: again };
}

const decideOn = ({ policy, passport, standing, request, quota }: Facts, nowMs: UnixMillis): Decision =>
  decide(policy, { kind: 'verified', passport, standing }, request, quota, nowMs);

/**
 * Whether the conditions of gate and passport that are asked of the request are met. They depend on the
 * request, the passport and the time alone: what was asked before has the same answer.
 */
function conditionsOf({ record, known, former }: Past, other: OtherPolicy): 'met' | 'unknown' {
  const { permissionKey, carried, constraintsEvaluated } = record;
  const isAsked = (permissions: ReadonlySet<string> | null): boolean =>
    permissions === null || permissionKey === null || grants(permissions, permissionKey);
  const [ofGate, ofPassport] = [other.conditions, known?.conditions ?? []].map((all) => all.some(isAsked));
  if (!ofGate && !ofPassport) return 'met';
  const names: readonly string[] = constraintsEvaluated;
  const wereMet = names.includes('conditions') && carried?.conditions?.length === 0;
  return wereMet && (!ofGate || former.has.conditions) ? 'met' : 'unknown';
}

/** Reasons of the checks before conditions (contract §5). */
const beforeConditions = new Set<DecisionReason | null>([
  'trust_level_insufficient',
  'state_stale',
  'issuer_untrusted',
  'proof_missing',
  'proof_invalid',
  'proof_replayed',
  'permission_missing',
  'permission_not_granted',
  'permission_not_in_catalog',
  'approval_denied',
  'approval_expired',
  'approval_used',
  'approval_mismatch',
]);

/** As the decision would be if one were not met. */
const conditionNotMet = (again: Decision): Decision =>
  beforeConditions.has(again.reason) ? again : { ...again, outcome: 'BLOCK', reason: 'approval_required' };

/** Two reasons for what is on record anyway make no difference. */
const agree = ({ decision }: AttestationRecord, one: Decision, another: Decision): boolean =>
  one.outcome === another.outcome && (one.outcome === decision || one.reason === another.reason);

/** Whether the record passed the check. */
function hasPassed({ constraintsEvaluated: checks, decision, reason }: AttestationRecord, name: CheckName) {
  if (!checks.includes(name)) return false;
  // A presented approval is looked at right after the permission, and has no name of its own.
  return decision !== 'BLOCK' || checks.at(-1) !== name || (reason !== null && reason in presentedStates);
}

/** Whether the record says all of its cost: what comes before is known to have passed. */
export const reachedCost = ({ decision, reason, constraintsEvaluated: checks }: AttestationRecord): boolean =>
  decision !== 'BLOCK' ||
  ofCost.has(reason) ||
  (reason === 'wallet_frozen' && checks.includes('spend_limit'));

/** Reads what a decision needs off a record. What is open is read so that it lets the request pass. */
class RecordReader {
  readonly #record: AttestationRecord;
  readonly #known: PastPassport;
  readonly #former: FormerPolicy;
  readonly #other: CompiledGate;
  readonly #isSamePolicy: boolean;
  readonly #open: Open[] = [];

  constructor({ record, known, former }: Past, other: OtherPolicy, isSamePolicy: boolean) {
    this.#record = record;
    this.#known = known as PastPassport;
    this.#former = former;
    this.#other = other.gate;
    this.#isSamePolicy = isSamePolicy;
  }

  facts(
    { quota, open }: PastWindows,
    drift: WalletDrift,
  ): { readonly facts: Facts; readonly open: readonly Open[] } {
    const passport = this.#passport();
    const standing = this.#standing(passport);
    const request = this.#request(passport);
    const { policy, shown } = this.#neutral(passport, request);
    const standingApprovals = this.#standingApprovals(passport);
    const wallet = this.#wallet(drift, { ...quota, standingApprovals });
    const facts = {
      policy,
      passport: shown,
      standing,
      request,
      quota: { ...quota, standingApprovals, wallet },
    };
    if (open !== null) this.#note(open.cause, { quota: { ...open.quota, standingApprovals, wallet } });
    return { facts, open: this.#open };
  }

  #note(cause: Undecided, otherwise: Partial<Facts>): void {
    this.#open.push({ cause, otherwise });
  }

  #passport(): VerifiedPassport {
    const { passport, isFederated } = this.#known;
    const { asserted, permissionKey, decision } = this.#record;
    const { trust } = this.#former.has;
    const shown: VerifiedPassport = asserted === true ? { ...passport, trustTier: 'L1' } : passport;
    if (!isFederated) return shown;
    // Its token let it pass here, at this level and for this permission.
    const granted: VerifiedPassport = {
      ...shown,
      trustTier: 'L3',
      permissions: new Set(permissionKey === null ? [] : [permissionKey]),
    };
    if (decision === 'BLOCK' || !trust)
      this.#note('passport_federated', { passport: { ...granted, trustTier: 'L1', permissions: new Set() } });
    return granted;
  }

  #standing(passport: VerifiedPassport): PassportStanding {
    const { reason, walletId, stateAgeMs, source } = this.#record;
    const { policy } = this.#former;
    const usual: PassportStanding = {
      status: 'active',
      isIssuerSuspended: false,
      isAccountSuspended: false,
      isKeyCompromised: false,
      isInWallet: walletId !== null,
      stateAgeMs: stateAgeMs ?? (source === 'control-plane' ? 0 : Number.POSITIVE_INFINITY),
    };
    const isSuspended = reason === 'issuer_untrusted' && checkIssuer(policy, passport, usual) === null;
    const standing = { ...usual, isIssuerSuspended: isSuspended };
    if (!isSuspended && !this.#known.isIssuerActive && !hasPassed(this.#record, 'issuer'))
      this.#note('standing', { standing: { ...standing, isIssuerSuspended: true } });
    // Records have whole milliseconds of it, cut off.
    const { stateAgeMs: ageMs } = standing;
    const isOlder = { ...standing, stateAgeMs: ageMs + 1 };
    const isPassed = reason === 'state_stale' && ageMs === policy.stateAgeMsMax;
    const aged = isPassed ? isOlder : standing;
    if (
      reason === 'state_stale' &&
      (policy.stateAgeMsMax === null || aged.stateAgeMs <= policy.stateAgeMsMax)
    )
      this.#note('state', { standing: { ...aged, stateAgeMs: Number.POSITIVE_INFINITY } });
    else if (ageMs === this.#other.stateAgeMsMax && ageMs !== policy.stateAgeMsMax)
      this.#note('state', { standing: isOlder });
    return aged;
  }

  #request(passport: VerifiedPassport): RequestFacts {
    const record = this.#record;
    const { reason, permissionKey, amountMicroUsd } = record;
    const { policy } = this.#former;
    const presented = record.decision === 'PERMIT' && record.approvalId?.startsWith('appr_') === true;
    const scan = this.#scan();
    const isHeldWithout = reason === 'amount_missing' && !this.#needsAmount(passport);
    const request: RequestFacts = {
      permissionKey,
      amountMicroUsd,
      currency: reason === 'currency_unsupported' ? 'another' : null,
      domain: record.domain,
      approvalId: null,
      approval: presented ? 'approved' : (presentedStates[reason ?? 'approval_required'] ?? 'none'),
      idempotencyKey: null,
      proof: this.#proof(passport),
      hold: isHeldWithout || record.holdExpiresAtMs !== null ? held : null,
      display: null,
      asked: {},
      requestHash: record.requestHash,
      pii: scan.known,
    };
    const otherwise = (cause: Undecided, facts: Partial<RequestFacts>): void =>
      this.#note(cause, { request: { ...request, ...facts } });
    if (scan.isOpen) otherwise('personal_data', { pii: { findings: [], isComplete: false } });
    if (this.#isProofOpen(passport)) otherwise('proof', { proof: { kind: 'none' } });
    if (amountMicroUsd === null && !reachedCost(record) && this.#isAboutMoney(passport))
      otherwise('request', { currency: 'another' });
    if (reason === 'amount_missing' && !isHeldWithout) otherwise('request', { hold: held });
    const priceOf = (of: CompiledPolicy) =>
      permissionKey === null ? null : (of.catalog?.get(permissionKey)?.priceMicroUsd ?? null);
    const isPrice = amountMicroUsd !== null && priceOf(policy) === amountMicroUsd;
    if (isPrice && priceOf(this.#other) !== amountMicroUsd) {
      otherwise('price', { amountMicroUsd: null });
      if (record.decision !== 'PERMIT') otherwise('price', { amountMicroUsd: null, hold: held });
    }
    const mayHaveBeenApproved =
      besideApproval.has(reason) &&
      demandedApprovalMs(policy, passport, { ...request, approval: 'none' }, amountMicroUsd) !== null;
    if (mayHaveBeenApproved) {
      otherwise('approval', { approval: 'approved' });
      if (!reachedCost(record)) otherwise('approval', { approval: 'expired' });
    }
    return request;
  }

  /** Where nothing is about money, a request without an amount is taken for one without a currency. */
  #isAboutMoney(passport: VerifiedPassport): boolean {
    return (
      this.#record.walletId !== null ||
      [this.#former.policy, this.#other, passport].some(
        ({ perTransactionMicroUsd, spendWindows, approvals }) =>
          perTransactionMicroUsd !== null ||
          spendWindows.length > 0 ||
          (approvals?.aboveMicroUsd ?? null) !== null,
      )
    );
  }

  #needsAmount(passport: VerifiedPassport): boolean {
    const { policy } = this.#former;
    return (
      lacksAmountToSpend(policy, passport, null) ||
      policy.approvals?.needsAmount === true ||
      passport.approvals?.needsAmount === true ||
      this.#record.walletId !== null
    );
  }

  #proof(passport: VerifiedPassport): RequestFacts['proof'] {
    const { reason, timestampMs } = this.#record;
    if (reason === 'proof_missing') return { kind: 'none' };
    if (reason === 'proof_invalid') return { kind: 'invalid' };
    if (reason === 'proof_replayed') return { kind: 'replayed' };
    const demand = demandedProof(this.#other, passport);
    const firstUse = demand === 'off' ? 'sidecar' : demand;
    return { kind: 'verified', scheme: 'dpop', fromMs: timestampMs, untilMs: timestampMs, firstUse };
  }

  /** Nobody looked at a proof, or not as far as the other policy wants. */
  #isProofOpen(passport: VerifiedPassport): boolean {
    const { constraintsEvaluated: checks } = this.#record;
    if (!checks.includes('proof_of_possession')) return true;
    return (
      demandedProof(this.#other, passport) === 'exact' &&
      demandedProof(this.#former.policy, passport) !== 'exact'
    );
  }

  /** What is found in its text by the controls of the other policy. */
  #scan(): { readonly known: PiiScan | null; readonly isOpen: boolean } {
    const { pii: controls } = this.#other;
    if (controls === null) return { known: null, isOpen: false };
    const { pii: found, reason } = this.#record;
    const { policy, has } = this.#former;
    const scanned = this.#record.constraintsEvaluated.includes('pii_controls') ? policy.pii : null;
    if (scanned === null) return { known: { findings: [], isComplete: true }, isOpen: true };
    const isBlocked = reason === 'pii_detected';
    const findings = found.filter(({ type }) => controls.types.some((each) => each === type));
    const isComplete =
      scanned.mode === 'log_only'
        ? !found.some(({ type }) => type === 'unscanned')
        : !isBlocked || (scanned.mode === 'block' && found.length > 0);
    const isWhole =
      has.pii ||
      (controls.types.every((type) => scanned.types.includes(type)) &&
        found.length < limits.piiFindingsMax &&
        // It was blocked for what was found, wherever the scan ended.
        !(isBlocked && isComplete));
    const isFound = !isComplete || (controls.mode === 'block' && findings.length > 0);
    return { known: { findings, isComplete }, isOpen: !isWhole && !isFound };
  }

  /**
   * What the record does not name, or an approval does not keep, is passed over where the policy asks for the
   * same and it has passed.
   */
  #neutral(
    passport: VerifiedPassport,
    request: RequestFacts,
  ): { policy: CompiledPolicy; shown: VerifiedPassport } {
    const record = this.#record;
    const { policy: former, has } = this.#former;
    const other: CompiledPolicy = this.#other;
    let [policy, shown] = [other, passport];
    const isPermissionKnown =
      record.permissionKey !== null ||
      former.pii === null ||
      record.reason === 'permission_missing' ||
      record.reason === 'permission_not_granted';
    if (!isPermissionKnown || !has.routes) {
      policy = { ...policy, requiresPermission: false };
      this.#note(has.routes ? 'withheld' : 'routes', {
        policy: other,
        request: { ...request, permissionKey: null },
      });
    }
    const hasLists = other.allowedDomains !== null || passport.allowedDomains !== null;
    const isDomainKnown =
      record.domain !== null ||
      (record.decision !== 'SUSPEND' && former.pii === null) ||
      record.reason === 'domain_missing' ||
      (record.reason === 'domain_not_allowed' && has.domains);
    if (hasLists && !isDomainKnown) {
      const hasPassedThem = hasPassed(record, 'domain_allowlist') && has.domains;
      if (!hasPassedThem) this.#note('withheld', { policy, passport: shown });
      policy = { ...policy, allowedDomains: null };
      shown = { ...shown, allowedDomains: null };
    }
    return { policy, shown };
  }

  /** A standing approval ends with the policy of its gate (contract §8). */
  #standingApprovals({ passportId }: VerifiedPassport): QuotaView['standingApprovals'] {
    const { decision, approvalId, permissionKey, amountMicroUsd, timestampMs } = this.#record;
    const isStanding = decision === 'PERMIT' && approvalId?.startsWith('sappr_') === true;
    if (!isStanding || !this.#isSamePolicy || permissionKey === null || amountMicroUsd === null) return [];
    const terms = {
      standingApprovalId: approvalId as StandingApprovalId,
      ...{ passportId, owner: null, permissionKey },
      eachMicroUsd: amountMicroUsd,
      totalMicroUsd: amountMicroUsd,
      expiresAtMs: (timestampMs + 1) as UnixMillis,
    };
    return [{ terms, window: windowView(amountMicroUsd, amountMicroUsd) }];
  }

  /** Nothing on record says what wallets had left, but whether it was enough. */
  #wallet(drift: WalletDrift, quota: Omit<QuotaView, 'wallet'>): WalletView | null {
    const { walletId, reason } = this.#record;
    if (walletId === null) return null;
    const isFull = reason === 'wallet_limit_exceeded';
    const full: WalletView = {
      state: 'known',
      levels: [{ walletId: null, spend: [windowView(0, 0)], rate: [windowView(0, 0)] }],
    };
    const empty: WalletView = { state: 'known', levels: [] };
    if (reason === 'wallet_frozen') return { state: 'frozen', levels: [] };
    const isOpen = isFull ? drift.mayBeEmptier : drift.mayBeFuller || !reachedCost(this.#record);
    if (isOpen) this.#note('wallet', { quota: { ...quota, wallet: isFull ? empty : full } });
    return isFull ? full : empty;
  }
}

const held: RequestFacts['hold'] = { expiresInMs: null };

const windowView = (limit: number, available: number): WindowView => ({
  limit,
  available,
  used: limit - available,
  isFinal: true,
  endsAtMs: 0 as UnixMillis,
});
