import { provenBy } from '../../shared/decision/check-proof.ts';
import type { CompiledGate } from '../../shared/decision/compile-gate.ts';
import type { Decision, PassportFacts, RequestFacts, VerifiedPassport } from '../../shared/decision/facts.ts';
import type { ShadowVerdict } from '../../shared/decision/shadow.ts';
import { assert } from '../../shared/errors/assert.ts';
import type { RecordForm } from '../../shared/model/attestation.ts';
import type { DecisionReason } from '../../shared/model/decision.ts';
import type { AccountId, AttestationId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Mode } from '../../shared/model/mode.ts';
import type { PermissionKey } from '../../shared/model/permission.ts';
import { renderTime, type UnixMillis } from '../../shared/model/time.ts';
import type { Answered } from '../../shared/wire/api/decision.ts';
import { stateAgeMsMax } from '../../shared/wire/evidence/attestation.ts';
import type { ReceiptStatement } from '../../shared/wire/evidence/decision-receipt.ts';
import {
  renderChainPart,
  renderOutcomePart,
  renderRowHead,
  renderRowTail,
} from '../../shared/wire/sync/spooled-record.ts';
import type { ChainPart, OutcomePart, SpooledExtras, SpooledRecord } from '../../shared/wire/sync/sync.ts';
import { type RecordParts, SharedPart } from '../attest/spool-segment.ts';
import { type HeldView, leasesOf } from '../quota/held-view.ts';
import { decideLimits } from './limits.ts';

/** What was decided, about what, when, and under which id it is recorded if it is. */
export interface Attempt extends Answered {
  readonly decision: Decision;
  readonly attestationId: AttestationId;
  readonly gate: CompiledGate | null;
  readonly facts: PassportFacts;
  /** The request that was decided on. */
  readonly request: RequestFacts;
  /** Good for the synchronous section that decided. Null where no passport verified. */
  readonly view: HeldView | null;
  /** Of the state of both feeds; Infinity: never current in this process. */
  readonly stateAgeMs: number;
  /** See needsRun. */
  readonly mayBePending: boolean;
  /** What the shadow of the gate says; null: it has none. */
  readonly shadow: ShadowVerdict | null;
}

/** What a record says besides what was decided. */
export interface RecordContext {
  /** As it may be recorded. */
  readonly permissionKey: PermissionKey | null;
  readonly domain: string | null;
  readonly callerMode: Mode;
  readonly accountId: AccountId;
  /** The control plane has said that it takes it. */
  readonly form: RecordForm;
}

/**
 * The passport in whose chain a record stands. Null: none verified. A key that was found to be compromised
 * after its token was remembered has verified nothing either.
 */
const chainOwnerOf = ({ facts, decision }: Attempt): VerifiedPassport | null =>
  facts.kind === 'verified' && decision.reason !== 'passport_unknown_key' ? facts.passport : null;

/**
 * The chain of the passport if its token verified, else of the gate, else of the account: a made-up token
 * must not write into the chain of the passport it names (contract §9).
 */
function chainPartOf(attempt: Attempt, accountId: AccountId, path: WalletKeys | undefined): ChainPart {
  const passport = chainOwnerOf(attempt);
  return {
    chain_id: passport?.passportId ?? attempt.gate?.gateId ?? accountId,
    passport_id: passport?.passportId ?? null,
    token_hash: passport?.tokenHash ?? null,
    ...(passport !== null &&
      passport.source !== null && {
        federated: { issuer_id: passport.issuerId, subject: passport.agentId },
      }),
    ...(path !== undefined && { wallet_path: path }),
  };
}

/** Null: not known. */
type WalletKeys = readonly string[] | null;

const inNoWallet: WalletKeys = [];

/**
 * The wallets that the decision drew on; undefined in form 1, and where no passport verified. That a passport
 * is in none is known as long as what is told of wallets (`WalletPath.isUsable`).
 */
function walletKeysOf(attempt: Attempt, form: RecordForm): WalletKeys | undefined {
  if (form === 1 || chainOwnerOf(attempt) === null) return undefined;
  const { view, stateAgeMs } = attempt;
  if (view === null) return null;
  if (view.heldWallet !== null) return view.heldWallet.path?.keys ?? null;
  return stateAgeMs <= limits.stateAgeL2MsMax ? inNoWallet : null;
}

const outcomePartOf = (
  { decision, gate }: Attempt,
  context: RecordContext,
  form: RecordForm,
): OutcomePart => ({
  gate_id: gate?.gateId ?? null,
  decision: decision.outcome,
  reason: decision.reason,
  permission_key: context.permissionKey,
  constraints_evaluated: decision.evaluated,
  pii: decision.pii,
  caller_mode: context.callerMode,
  ...(form === 1 ? {} : { policy_hash: gate?.policyHash ?? null, trust_level: gate?.trustLevel ?? null }),
});

/** Whole milliseconds; null: not known. */
const ageOnRecord = ({ stateAgeMs }: Attempt): number | null =>
  stateAgeMs === Number.POSITIVE_INFINITY ? null : Math.min(Math.trunc(stateAgeMs), stateAgeMsMax);

function extrasOf({ decision, request, shadow }: Attempt, { domain }: RecordContext): SpooledExtras | null {
  const proof = provenBy(decision, request);
  const { hold, conditions } = decision;
  if (domain === null && proof === null && hold === null && shadow === null && conditions === null)
    return null;
  // No spread: of three members it takes longer than the rest of the record.
  const extras: { -readonly [Name in keyof SpooledExtras]: SpooledExtras[Name] } = {};
  if (domain !== null) extras.domain = domain;
  if (hold !== null) extras.hold_expires_at_ms = hold.expiresAtMs;
  if (proof !== null) extras.proof = proof;
  if (shadow !== null) extras.shadow = shadow;
  if (conditions !== null) extras.conditions = conditions;
  return extras;
}

/** The leases that a PERMIT takes from; in the section that takes them. */
const tookOf = ({ decision, view }: Attempt): readonly number[] | undefined =>
  decision.outcome === 'PERMIT' && decision.charge !== null && view !== null
    ? leasesOf(view, decision.charge)
    : undefined;

/** What a receipt of its answer states. `answered`: what stands on record, if it is not this decision. */
export function statementOf(
  attempt: Attempt,
  accountId: AccountId,
  answered: Pick<Decision, 'outcome' | 'reason'> & Pick<Attempt, 'attestationId'> = {
    ...attempt.decision,
    attestationId: attempt.attestationId,
  },
): ReceiptStatement {
  const { gate, request, nowMs } = attempt;
  const { outcome, reason, attestationId } = answered;
  assert(outcome !== 'SUSPEND', 'what is suspended has no record yet');
  return {
    attestation_id: attestationId,
    chain_id: chainPartOf(attempt, accountId, undefined).chain_id,
    decision: outcome,
    gate_id: gate?.gateId ?? null,
    issued_at: renderTime(nowMs),
    log_by: renderTime((nowMs + decideLimits.receiptLogMs) as UnixMillis),
    reason,
    request_hash: request.requestHash,
  };
}

/** The record of a decision, whole: what a settlement carries. */
export function recordOf(attempt: Attempt, context: RecordContext): SpooledRecord {
  const { form } = context;
  const took = tookOf(attempt);
  return {
    id: attempt.attestationId,
    request_hash: attempt.request.requestHash,
    amount_micro_usd: attempt.decision.amountMicroUsd,
    timestamp_ms: attempt.nowMs,
    ...(took === undefined ? {} : { took }),
    ...(form === 1 ? {} : { state_age_ms: ageOnRecord(attempt), extras: extrasOf(attempt, context) }),
    ...chainPartOf(attempt, context.accountId, walletKeysOf(attempt, form)),
    ...outcomePartOf(attempt, context, form),
  };
}

/**
 * Records in the parts in which the spool writes them. Parts that many records share, of the passport and of
 * gate, reason and permission, are rendered once and written once in a block. All are in one form.
 */
export class RecordRows {
  readonly form: RecordForm;
  readonly #chains = new WeakMap<VerifiedPassport, KnownChain>();
  readonly #outcomes = new WeakMap<CompiledGate, Outcomes>();

  constructor(form: RecordForm) {
    this.form = form;
  }

  /** The same record as `recordOf`. */
  rowOf(attempt: Attempt, context: RecordContext): RecordParts {
    const { attestationId, request, decision, nowMs } = attempt;
    const head = renderRowHead(
      attestationId,
      request.requestHash,
      decision.amountMicroUsd,
      nowMs,
      tookOf(attempt),
    );
    return {
      head: this.form === 1 ? head : head + renderRowTail(ageOnRecord(attempt), extrasOf(attempt, context)),
      chain: this.#chainOf(attempt, context),
      outcome: this.#outcomeOf(attempt, context),
    };
  }

  #chainOf(attempt: Attempt, { accountId }: RecordContext): SharedPart {
    const passport = chainOwnerOf(attempt);
    const path = walletKeysOf(attempt, this.form);
    const known = passport === null ? undefined : this.#chains.get(passport);
    // The keys of a path are one list.
    if (known !== undefined && known.path === path) return known.part;
    const part = new SharedPart(renderChainPart(chainPartOf(attempt, accountId, path)));
    if (passport !== null) this.#chains.set(passport, { path, part });
    return part;
  }

  #outcomeOf(attempt: Attempt, context: RecordContext): SharedPart {
    const { gate, decision } = attempt;
    // What was found in one request, and a permission that was scanned, is hardly ever that of another one.
    if (gate === null || gate.pii !== null)
      return new SharedPart(renderOutcomePart(outcomePartOf(attempt, context, this.form)));
    const parts = this.#outcomesOf(gate, decision.reason);
    const known = parts.get(context.permissionKey);
    // Lists of checks are shared: the same checks are the same list.
    if (known !== undefined && known.evaluated === decision.evaluated) return known.part;
    // An agent that holds `orders:*` makes up as many as it likes.
    if (parts.size >= decideLimits.outcomesMax) parts.clear();
    const part = new SharedPart(renderOutcomePart(outcomePartOf(attempt, context, this.form)));
    parts.set(context.permissionKey, { evaluated: decision.evaluated, part });
    return part;
  }

  #outcomesOf(gate: CompiledGate, reason: DecisionReason | null): OutcomesOfReason {
    let ofGate = this.#outcomes.get(gate);
    if (ofGate === undefined) {
      ofGate = new Map();
      this.#outcomes.set(gate, ofGate);
    }
    let ofReason = ofGate.get(reason);
    if (ofReason === undefined) {
      ofReason = new Map();
      ofGate.set(reason, ofReason);
    }
    return ofReason;
  }
}

interface KnownChain {
  readonly path: WalletKeys | undefined;
  readonly part: SharedPart;
}

/** By reason; null: the PERMIT. There are as many as the catalogue has reasons. */
type Outcomes = Map<DecisionReason | null, OutcomesOfReason>;
type OutcomesOfReason = Map<
  PermissionKey | null,
  { readonly evaluated: Decision['evaluated']; readonly part: SharedPart }
>;
