import type { CompiledPolicy } from '../decision/compile-gate.ts';
import { decide } from '../decision/decide.ts';
import type {
  Decision,
  PassportFacts,
  PassportStanding,
  PresentedProof,
  QuotaView,
  RequestFacts,
  VerifiedPassport,
  WalletView,
  WindowView,
} from '../decision/facts.ts';
import type { DrawnOf } from '../decision/windows-of.ts';
import type { Attestation } from '../model/attestation.ts';
import type { DecisionReason, Outcome } from '../model/decision.ts';
import type { WalletId } from '../model/ids.ts';
import { minuteMs, parseTime, type UnixMillis } from '../model/time.ts';
import { conditionsByFacts, type FactsFound, type OpenFacts } from './conditions-by-facts.ts';
import {
  drawnBy,
  type Evidence,
  isPresented,
  type KnownPassport,
  standingTermsOf,
  type Unjudged,
} from './evidence.ts';

/**
 * agrees: the policy, the passport and the records of the export give this decision. contradicted: they
 * cannot; `expected` is what they give, null where it is no other decision of the gate. unjudged: they do not
 * say enough.
 */
export type Judgement =
  | { readonly kind: 'agrees' }
  | { readonly kind: 'contradicted'; readonly fault: Fault; readonly expected: Expected | null }
  | { readonly kind: 'unjudged'; readonly why: Unjudged };

interface Expected {
  readonly decision: Outcome;
  readonly reason: DecisionReason | null;
}

/**
 * decision: another one. checks: the same one after other checks; conditions: after other ones that failed.
 * The other words name what is wrong.
 */
export type Fault =
  | 'decision'
  | 'checks'
  | 'conditions'
  | 'facts'
  | 'trust_level'
  | 'no_passport'
  | 'approval'
  | 'over_limit';

/** How far the clocks of two programs may differ (contract §6). */
export const clockLeewayMs = minuteMs;

const agrees: Judgement = { kind: 'agrees' };
const unjudged = (why: Unjudged): Judgement => ({ kind: 'unjudged', why });
const contradicted = (fault: Fault, expected: Expected | null = null): Judgement => ({
  kind: 'contradicted',
  fault,
  expected,
});

/** Reasons for which a token is no passport. */
const tokenReasons: readonly (DecisionReason | null)[] = [
  'passport_malformed',
  'passport_signature_invalid',
  'passport_unknown_key',
  'issuer_untrusted',
];

/**
 * What a record says that nothing else in an export shows: it is taken at its word in a second pass, and the
 * decision counts as unjudged.
 */
const claims: Partial<Record<DecisionReason, Unjudged>> = {
  state_stale: 'state',
  passport_revoked: 'standing',
  passport_suspended: 'standing',
  passport_unknown_key: 'standing',
  issuer_untrusted: 'standing',
  mode_mismatch: 'mode',
  proof_invalid: 'proof',
  proof_replayed: 'proof',
  pii_detected: 'request',
  currency_unsupported: 'request',
  approval_denied: 'approval',
  approval_expired: 'approval',
  approval_used: 'approval',
  approval_mismatch: 'approval',
  spend_limit_exceeded: 'units',
  rate_limit_exceeded: 'units',
  wallet_limit_exceeded: 'ledger',
  wallet_frozen: 'standing',
};

/** What the records of an export say of windows. */
interface Windows {
  /** Whether the record's request did not fit, by what other records of the export have taken. */
  wereFull(record: Attestation, drawn: DrawnOf): boolean;
}

/**
 * Decides a record again, from what the export says. Not for records with a `resolution`, which are no
 * decisions.
 */
export function judge(
  record: Attestation,
  evidence: Evidence,
  windows: Windows,
  facts: OpenFacts,
): Judgement {
  const { decision, reason, passportId } = record;
  if (passportId === null) {
    const isRefused = decision === 'BLOCK' && tokenReasons.includes(reason);
    return isRefused ? unjudged('token') : contradicted('no_passport');
  }
  if (reason === 'quota_unavailable') return unjudged('ledger');
  if (isOfNewer(record.carried)) return unjudged('members');
  const known = evidence.passport(passportId);
  if (typeof known === 'string') return unjudged(known);
  const policy = evidence.policy(record, known.passport.mode);
  if (typeof policy === 'string') return unjudged(policy);
  if (policy.trustLevel !== record.trustLevel) return contradicted('trust_level');
  const approval = presentedApproval(record, evidence);
  if (approval !== null) return approval;
  const drawn = drawnBy(record, policy, known.passport);
  const found: FactsFound = { areMissing: false, differ: false };
  const byFacts = <Of extends CompiledPolicy | VerifiedPassport>(of: Of): Of =>
    of.conditions.length === 0
      ? of
      : { ...of, conditions: conditionsByFacts(of.conditions, withUser(record, facts), found) };
  const input: Input = {
    ...{ record, drawn, evidence, found },
    policy: byFacts(policy),
    known: { ...known, passport: byFacts(known.passport) },
  };
  if (isHistoryCut(input)) return unjudged('passport_history');
  const explained = explain(input, windows);
  if (explained !== null) return found.differ ? contradicted('facts') : explained;
  if (found.areMissing) return unjudged('facts');
  if (!isOfControlPlane(record) && explain(otherWallet(input), windows) !== null) return unjudged('wallet');
  return isWithheld(input) ? unjudged('withheld') : differs([...decisionsAgain(input, null)], record);
}

/** A record that names no user says that there is none. */
function withUser({ carried }: Attestation, facts: OpenFacts): OpenFacts {
  const isNamed =
    carried !== null && (carried.user !== null || carried.facts?.some(({ path }) => path === '/user'));
  return isNamed === true ? facts : new Map([['/user', null], ...facts]);
}

/** Whether it has what later versions decide by. */
const isOfNewer = (carried: Attestation['carried']): boolean =>
  carried !== null && (carried.external !== null || carried.permit_token !== null || carried.units !== null);

/** Whether the gate gives this decision, for certain or by what the record says. Null: it does not. */
function explain(input: Input, windows: Windows): Judgement | null {
  const { record, drawn } = input;
  const { reason } = record;
  for (const each of decisionsAgain(input, null)) if (isSame(each, record)) return agrees;
  if (reason === 'approvals_pending_exceeded') {
    const isAsked = [...decisionsAgain(input, null)].some(
      (each) => each.outcome === 'SUSPEND' && hasSameChecks(each, record),
    );
    return isAsked ? unjudged('pending') : null;
  }
  const claim = reason === null ? undefined : claims[reason];
  if (claim === undefined || !isGivenByClaim(input, reason)) return null;
  return claim === 'units' && windows.wereFull(record, drawn) ? agrees : unjudged(claim);
}

/** Whether the judgement of a record needs what all other records took of its windows. */
export const needsSums = ({ reason }: Attestation): boolean => reason !== null && claims[reason] === 'units';

/**
 * A sidecar hears of a move later than the control plane, which says the wallet of a record. So it may have
 * decided without that wallet, or by one that the passport had left.
 */
const otherWallet = (input: Input): Input => {
  const walletId = input.record.walletId === null ? ('wal_' as WalletId) : null;
  return { ...input, record: { ...input.record, walletId } };
};

/**
 * A sidecar that looks an approval up is told of a frozen wallet before the request is read, as of an
 * approval that refuses it.
 */
function isGivenByClaim(input: Input, claim: DecisionReason | null): boolean {
  const { record } = input;
  for (const each of decisionsAgain(input, claim)) if (isSame(each, record)) return true;
  if (claim !== 'wallet_frozen' || record.walletId === null) return false;
  return [...decisionsAgain(input, 'approval_mismatch')].some(
    ({ reason, ...each }) => reason === 'approval_mismatch' && isSame({ ...each, reason: claim }, record),
  );
}

/** By the first of these with another decision, else by the first with another reason. */
function differs(found: readonly Decision[], record: Attestation): Judgement {
  const other =
    found.find(({ outcome }) => outcome !== record.decision) ??
    found.find(({ reason }) => reason !== record.reason);
  if (other === undefined)
    return contradicted(found.some((each) => hasSameChecks(each, record)) ? 'conditions' : 'checks');
  return contradicted('decision', { decision: other.outcome, reason: other.reason });
}

const isSame = (again: Decision, record: Attestation): boolean =>
  again.outcome === record.decision &&
  again.reason === record.reason &&
  again.amountMicroUsd === record.amountMicroUsd &&
  hasSameChecks(again, record) &&
  again.conditions?.join() === record.carried?.conditions?.join();

const hasSameChecks = ({ evaluated }: Decision, { constraintsEvaluated }: Attestation): boolean =>
  evaluated.length === constraintsEvaluated.length &&
  evaluated.every((name, place) => name === constraintsEvaluated[place]);

/**
 * Where the controls of a gate find personal data in a permission or a domain, its record leaves that out.
 * It has no finding of it where another check blocked before, or where others fill the list (contract §7).
 */
function isWithheld({ record, policy }: Input): boolean {
  if (policy.pii === null) return false;
  const { permissionKey, domain, constraintsEvaluated: checks } = record;
  return (
    (permissionKey === null && checks.includes('permission')) ||
    (domain === null && checks.includes('domain_allowlist'))
  );
}

/** Null: nothing is wrong with the approval that a PERMIT names. */
function presentedApproval(record: Attestation, evidence: Evidence): Judgement | null {
  const { decision, approvalId, timestampMs, gateId } = record;
  if (decision !== 'PERMIT' || approvalId === null) return null;
  const body = evidence.approvalOf(record);
  if (body === null || body.removed === true) return unjudged('approval_removed');
  if (body.gate_id !== gateId) return contradicted('approval');
  if (!approvalId.startsWith('sappr_')) {
    const end = evidence.endOf(approvalId);
    // With `since`, the record of its end may not be in the file.
    if (end === null) return unjudged('approval_before');
    const { approvedMs } = end;
    const isApproved = approvedMs !== null && approvedMs <= timestampMs + clockLeewayMs;
    return isApproved ? null : contradicted('approval');
  }
  const endedMs = typeof body.ended_at === 'string' ? parseTime(body.ended_at) : null;
  const isInForce = (endedMs ?? Infinity) > knownFromMs(record);
  return isInForce && standingTermsOf(body) !== null ? null : contradicted('approval');
}

const isOfControlPlane = ({ source }: Attestation): boolean => source === 'control-plane';

/**
 * A control plane decides on its database, which has no age. A sidecar without an age was not connected since
 * its start: what it has of its disk may be of any time.
 */
const ageOf = (record: Attestation): number =>
  record.stateAgeMs ?? (isOfControlPlane(record) ? 0 : Number.POSITIVE_INFINITY);

/** What had happened by then was known to the decision. */
const knownFromMs = (record: Attestation): number => record.timestampMs - ageOf(record) - clockLeewayMs;

type Status = PassportStanding['status'];

interface Input {
  readonly record: Attestation;
  readonly policy: CompiledPolicy;
  readonly known: KnownPassport;
  readonly drawn: DrawnOf;
  readonly evidence: Evidence;
  readonly found: FactsFound;
}

const isHistoryCut = ({ record, known: { isCut, changes } }: Input): boolean =>
  isCut && knownFromMs(record) < (changes[0]?.atMs ?? Infinity);

/**
 * The decisions that the gate may have made. They differ by what it knew of the passport: it knew each change
 * that is older than its state, and it may have known newer ones. `claim`: a reason that the record is
 * believed.
 */
function* decisionsAgain(input: Input, claim: DecisionReason | null): Generator<Decision> {
  const { record, evidence } = input;
  const believed = believedPolicy(input, claim);
  const quota = quotaOf(input, claim, evidence);
  const request = requestOf(record, claim);
  for (const { standing, hold, wallet } of situationsOf(input, claim)) {
    const facts: PassportFacts = { kind: 'verified', passport: shownOf(input), standing };
    const wasMissing = input.found.areMissing;
    input.found.areMissing = false;
    const again = decide(believed, facts, { ...request, hold }, { ...quota, wallet }, record.timestampMs);
    if (!input.found.areMissing) yield again;
    input.found.areMissing ||= wasMissing;
  }
}

interface Situation {
  readonly standing: PassportStanding;
  readonly hold: RequestFacts['hold'];
  readonly wallet: WalletView | null;
}

/** All that a sidecar may have known where the record leaves it open. */
function* situationsOf(input: Input, claim: DecisionReason | null): Generator<Situation> {
  const { record } = input;
  const held = { expiresInMs: null };
  const isHeld = record.holdExpiresAtMs !== null;
  const holds = record.reason === 'amount_missing' ? [null, held] : [isHeld ? held : null];
  const wallets = walletsOf(record, claim);
  for (const status of statusesOf(input, claim)) {
    for (const stateAgeMs of agesOf(record)) {
      const standing: PassportStanding = {
        status,
        stateAgeMs,
        isIssuerSuspended: claim === 'issuer_untrusted',
        isAccountSuspended: false,
        isKeyCompromised: claim === 'passport_unknown_key',
        isInWallet: record.walletId !== null,
      };
      for (const hold of holds) for (const wallet of wallets) yield { standing, hold, wallet };
    }
  }
}

/**
 * A gate of which a sidecar knew a later policy blocks at any level, however young its state (contract §17).
 */
function believedPolicy({ record, policy }: Input, claim: DecisionReason | null): CompiledPolicy {
  if (claim === 'mode_mismatch') return { ...policy, mode: otherMode(policy.mode) };
  return claim === 'state_stale' && record.gateId !== null ? { ...policy, stateAgeMsMax: -1 } : policy;
}

/** A subject that was named without its token counts as L1 (contract §16). */
const shownOf = ({ record, known: { passport } }: Input): VerifiedPassport =>
  record.asserted === true ? { ...passport, trustTier: 'L1' } : passport;

const otherMode = (mode: CompiledPolicy['mode']): CompiledPolicy['mode'] =>
  mode === 'live' ? 'test' : 'live';

function statusesOf({ record, known }: Input, claim: DecisionReason | null): readonly Status[] {
  if (claim === 'passport_revoked') return ['revoked'];
  if (claim === 'passport_suspended') return ['suspended'];
  const [fromMs, untilMs] = [knownFromMs(record), record.timestampMs + clockLeewayMs];
  let before: Status = 'active';
  const possible = new Set<Status>();
  for (const { atMs, status } of known.changes) {
    if (atMs <= fromMs) before = status;
    else if (atMs <= untilMs) possible.add(status);
  }
  return [before, ...possible];
}

/** Records have whole milliseconds of it, cut off. */
const agesOf = (record: Attestation): readonly number[] => {
  const { stateAgeMs } = record;
  return stateAgeMs === null ? [ageOf(record)] : [stateAgeMs, stateAgeMs + 1];
};

function requestOf(record: Attestation, claim: DecisionReason | null): Omit<RequestFacts, 'hold'> {
  const presented = isPresented(record) ? record.approvalId : null;
  return {
    permissionKey: record.permissionKey,
    amountMicroUsd: record.amountMicroUsd,
    currency: claim === 'currency_unsupported' ? 'another' : null,
    domain: record.domain,
    approvalId: presented,
    approval: approvalStates[claim ?? ''] ?? (presented === null ? 'none' : 'approved'),
    idempotencyKey: null,
    proof: proofOf(record, claim),
    display: null,
    asked: {},
    requestHash: record.requestHash,
    pii: { findings: record.pii, isComplete: claim !== 'pii_detected' },
  };
}

const approvalStates: Readonly<Record<string, RequestFacts['approval']>> = {
  approval_denied: 'denied',
  approval_expired: 'expired',
  approval_used: 'used',
  approval_mismatch: 'mismatch',
};

function proofOf({ proof, timestampMs }: Attestation, claim: DecisionReason | null): PresentedProof {
  if (claim === 'proof_invalid') return { kind: 'invalid' };
  if (claim === 'proof_replayed') return { kind: 'replayed' };
  if (proof === null) return { kind: 'none' };
  return { kind: 'verified', scheme: proof, fromMs: timestampMs, untilMs: timestampMs, firstUse: 'exact' };
}

/** All units are there, or, by the claim, none: the sums of the records show whether that may be. */
function quotaOf(
  { record, drawn }: Input,
  claim: DecisionReason | null,
  evidence: Evidence,
): Omit<QuotaView, 'wallet'> {
  const view =
    (isFull: boolean) =>
    ({ limit }: { readonly limit: number }): WindowView => ({
      limit,
      available: isFull ? 0 : limit,
      used: isFull ? limit : 0,
      isFinal: true,
      endsAtMs: record.timestampMs,
    });
  const isStanding = record.decision === 'PERMIT' && record.approvalId?.startsWith('sappr_') === true;
  const body = isStanding ? evidence.approvalOf(record) : null;
  const bornMs = parseTime(body?.created_at ?? '') ?? 0;
  const isBorn = record.timestampMs + clockLeewayMs >= bornMs;
  const terms = body === null || !isBorn ? null : standingTermsOf(body);
  return {
    spend: drawn.spend.map(view(claim === 'spend_limit_exceeded')),
    rate: drawn.rate.map(view(claim === 'rate_limit_exceeded')),
    standingApprovals:
      terms === null
        ? []
        : [{ terms: standingUntil(terms, record), window: view(false)({ limit: terms.eachMicroUsd }) }],
  };
}

/** An export does not say what the wallets limit: money, requests, both or neither. */
function walletsOf(record: Attestation, claim: DecisionReason | null): readonly (WalletView | null)[] {
  if (record.walletId === null) return [null];
  const isFull = claim === 'wallet_limit_exceeded';
  const limit = Number.MAX_SAFE_INTEGER;
  const [available, used] = isFull ? [0, limit] : [limit, 0];
  const window: WindowView = { limit, available, used, isFinal: true, endsAtMs: record.timestampMs };
  const state = claim === 'wallet_frozen' ? 'frozen' : 'known';
  return [[], [window]].flatMap((spend) =>
    [[], [window]].map((rate): WalletView => ({ state, levels: [{ walletId: null, spend, rate }] })),
  );
}

/** A clock may be behind the one that set the end. */
const standingUntil = <Terms extends { readonly expiresAtMs: UnixMillis }>(
  terms: Terms,
  { timestampMs }: Attestation,
): Terms =>
  timestampMs < terms.expiresAtMs + clockLeewayMs
    ? { ...terms, expiresAtMs: Math.max(terms.expiresAtMs, timestampMs + 1) as UnixMillis }
    : terms;
