/**
 * Room `sidecar/decide`: the synchronous section, from a check to its record. `check.ts` is a check from its
 * arrival to its answer, `record.ts` what is written of it, `answers.ts` the only way in which one is
 * answered.
 */

import { mayBePending } from '../../shared/decision/check-approval.ts';
import {
  type CompiledGate,
  type CompiledPolicy,
  type CompiledShadow,
  noGate,
} from '../../shared/decision/compile-gate.ts';
import { decide, mayAskConditions } from '../../shared/decision/decide.ts';
import {
  type Decision,
  noWindows,
  type PassportFacts,
  type PassportStanding,
  type RequestFacts,
  type VerifiedPassport,
} from '../../shared/decision/facts.ts';
import { needsRun } from '../../shared/decision/run.ts';
import { decideShadow, type ShadowVerdict } from '../../shared/decision/shadow.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { must, unreachable } from '../../shared/errors/assert.ts';
import type { ApprovalDisplay } from '../../shared/model/approval.ts';
import type { RecordForm } from '../../shared/model/attestation.ts';
import type { PiiControls } from '../../shared/model/constraints.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import type { PermissionKey } from '../../shared/model/permission.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import { displayOnApproval } from '../../shared/pii/display-on-approval.ts';
import { domainOnRecord } from '../../shared/pii/domain-on-record.ts';
import { permissionOnRecord } from '../../shared/pii/permission-on-record.ts';
import { redactRequest } from '../../shared/pii/redact-request.ts';
import { scanPii } from '../../shared/pii/scan-pii.ts';
import type { Clock, Moment } from '../../shared/runtime/clock.ts';
import type { Random } from '../../shared/runtime/random.ts';
import type { KnownIssuers } from '../../shared/verification/foreign-issuers.ts';
import { sentAmount } from '../../shared/wire/api/check.ts';
import type { Spool } from '../attest/spool.ts';
import { drawnView, takenAtMs } from '../quota/held-view.ts';
import type { LeaseHolder } from '../quota/lease-holder.ts';
import type { CatchUp } from '../replica/catch-up.ts';
import { type Authenticate, type Caller, type KnownCallers, refuseSuspended } from './callers.ts';
import type { ReadyCheck } from './check.ts';
import type { Receipts } from './receipts.ts';
import { type Attempt, type RecordContext, RecordRows, statementOf } from './record.ts';
import { refuseWhereDisowned } from './refuse-where-disowned.ts';
import { DecisionReply } from './replies.ts';
import { ScanBudget } from './scan-budget.ts';

/**
 * What a decision reads of the replica. Every question is answered from memory, with what is in force at that
 * moment.
 */
export interface EnforcementState extends KnownCallers {
  /** Null until the first snapshot is loaded: nothing can be decided before. */
  readonly accountId: AccountId | null;
  /** Of the control plane, for links that people follow. Null: not known. */
  readonly publicUrl: string | null;
  /** Of the sidecar's account, not deleted; whatever text is asked for. */
  gate(gateId: string): CompiledGate | null;
  /** Issuers of others that this gate knows; null: without a gate. */
  issuersAt(gate: CompiledGate | null): KnownIssuers;
  /** The form of records that the control plane takes. */
  readonly recordForm: RecordForm;
  /** Moment up to which the state is known to be complete; minus infinity if unknown. */
  readonly asOfMs: number;
  /** `nowMs`: of this moment. */
  standing(passport: VerifiedPassport, nowMs: MonotonicMillis): PassportStanding;
}

export interface SectionDeps {
  readonly state: EnforcementState;
  readonly authenticate: Authenticate;
  readonly leases: Pick<LeaseHolder, 'view' | 'take'>;
  /** Where records go before answers do. */
  readonly spool: Pick<Spool, 'isFull' | 'append'>;
  /** See refuseWhereDisowned. */
  readonly mustNotServe: () => string | null;
  /** Whether this loop may decide, or was stopped and has to catch up first. */
  readonly catchUp: Pick<CatchUp, 'mayDecideAt'>;
  readonly receipts: Pick<Receipts, 'refuseUncertified'>;
  readonly clock: Clock;
  readonly random: Random;
}

/**
 * What became of a pass:
 *
 *   recorded     decided, taken and recorded; it is answered when its record is written
 *   scan_spent   enough was scanned in this turn of the event loop: try again in the next
 *   catching_up  this loop was stopped, and may not decide yet
 *   proof_unknown  more has to be known of the proof of possession
 *   an attempt   decided; it has to ask before it is an answer (`needsRun`). Nothing is taken yet
 */
export type Passed = 'recorded' | 'scan_spent' | 'catching_up' | 'proof_unknown' | Attempt;

/**
 * THE SYNCHRONOUS SECTION. Who asks, at which gate, with what passport, what the request says and what is
 * left are read and decided on, taken and recorded with nothing awaited in between: one moment's state
 * decides and is recorded. A check that had to wait comes here again and is decided as a whole, because
 * whatever it saw before has aged.
 */
export class Section {
  readonly #deps: SectionDeps;
  readonly #scans: ScanBudget;
  #rows = new RecordRows(1);

  constructor(deps: SectionDeps) {
    this.#deps = deps;
    this.#scans = new ScanBudget(deps.clock);
  }

  /**
   * `moment`: when this section began. Throws ApiError, with nothing taken, where this sidecar must not
   * serve, its spool is full, or the key or the gate went meanwhile.
   */
  decide(check: ReadyCheck, moment: Moment): Passed {
    const { mustNotServe, spool, catchUp, receipts } = this.#deps;
    refuseWhereDisowned(mustNotServe());
    if (spool.isFull) throw new ApiError('overloaded');
    if (check.wantsReceipt) receipts.refuseUncertified(moment.nowMs);
    if (!catchUp.mayDecideAt(moment.monotonicMs)) return 'catching_up';
    const attempt = this.#attempt(check, moment);
    if (attempt === null) return 'scan_spent';
    if (attempt.decision.unknown === 'proof') return 'proof_unknown';
    if (check.learned !== null || needsRun(attempt.decision, attempt.request, attempt.mayBePending))
      return attempt;
    this.#take(check, attempt);
    return 'recorded';
  }

  /** The end of a check that had to ask, in the section that decided it. Throws as `decide`. */
  record(check: ReadyCheck, attempt: Attempt): void {
    // The spool may have filled or failed since the decision.
    if (this.#deps.spool.isFull) throw new ApiError('overloaded');
    this.#take(check, attempt);
  }

  /**
   * Takes what the decision costs and appends its record. For good, also where the write fails: the record
   * may turn up in the log all the same, and no log may show more than a limit allows.
   */
  #take(check: ReadyCheck, attempt: Attempt): void {
    const { leases, spool } = this.#deps;
    const { decision, view } = attempt;
    const context = this.contextOf(check, attempt.gate);
    if (this.#rows.form !== context.form) this.#rows = new RecordRows(context.form);
    const row = this.#rows.rowOf(attempt, context);
    if (decision.charge !== null && view !== null) leases.take(view, decision.charge);
    if (check.wantsReceipt) check.receipt = statementOf(attempt, context.accountId);
    spool.append(row, check.decidedWith(new DecisionReply(decision, attempt, check)));
  }

  #attempt(check: ReadyCheck, { monotonicMs, nowMs }: Moment): Attempt | null {
    const { state, leases, random } = this.#deps;
    this.#authenticateAgain(check, nowMs);
    const gate = check.gateId === null ? null : findGate(state, check.gateId, check.caller);
    const policy = gate ?? this.#policyWithoutGate(check);
    const facts = this.#factsOf(check, gate, monotonicMs);
    const refusal = sentAmount(check.request, mayAskConditions(policy, facts));
    if (refusal !== null) throw refusal;
    const read = this.#read(check, policy, facts);
    if (read === null) return null;
    if (read.hold !== null && state.recordForm === 1) throw holdsBeginLater();
    const { learned } = check;
    const request = learned === null ? read : learned.known(read);
    const view =
      facts.kind === 'refused'
        ? null
        : leases.view(gate, facts.passport, learned?.shortage ?? null, facts.standing.isInWallet);
    const atMs = view === null ? nowMs : takenAtMs(view, nowMs);
    const decision = decide(policy, facts, request, view ?? noWindows, atMs);
    return {
      decision,
      attestationId: random.newId('att', atMs),
      approval: null,
      redacted: decision.isRedacted ? this.redacted(check, policy.pii) : null,
      nowMs: atMs,
      gate,
      facts,
      request,
      view: view === null ? null : drawnView(view, decision.standingApproval),
      stateAgeMs: monotonicMs - state.asOfMs,
      mayBePending: isPending(policy, facts, request, decision),
      shadow:
        gate === null || gate.shadow === null
          ? null
          : this.#decideShadow(check, gate.shadow, { facts, request, nowMs: atMs }),
    };
  }

  #decideShadow(
    check: ReadyCheck,
    shadow: CompiledShadow,
    { facts, request, nowMs }: Pick<Attempt, 'facts' | 'request' | 'nowMs'>,
  ): ShadowVerdict | null {
    return decideShadow(shadow, facts, () => this.#readAgain(check, shadow, facts, request), nowMs);
  }

  /** The request as the shadow reads it. Null: too much was scanned in this turn. */
  #readAgain(
    check: ReadyCheck,
    { policy: { pii } }: CompiledShadow,
    { kind }: PassportFacts,
    decided: RequestFacts,
  ): RequestFacts | null {
    const request = check.underShadow === null ? decided : { ...decided, ...check.underShadow };
    if (kind === 'refused' || pii === null || check.scannedFor === pii.types) return request;
    if (this.#scans.isSpent) return null;
    return this.#scans.spend(() => ({ ...request, pii: scanPii(check.asked, pii.types) }));
  }

  /** The key may have been deleted since the check arrived. */
  #authenticateAgain({ authorization }: ReadyCheck, nowMs: Moment['nowMs']): void {
    const { state, authenticate } = this.#deps;
    if (authorization === null) refuseSuspended(state);
    else authenticate(authorization, 'enforcement:check', nowMs);
  }

  #policyWithoutGate({ caller }: ReadyCheck): CompiledPolicy {
    const accountId = must(this.#deps.state.accountId, 'state is never unloaded');
    return noGate({ accountId, mode: caller.mode });
  }

  #factsOf({ token }: ReadyCheck, gate: CompiledGate | null, nowMs: MonotonicMillis): PassportFacts {
    switch (token.kind) {
      case 'refused':
        return token;
      case 'verified': {
        const { passport } = token;
        const { state } = this.#deps;
        // Its issuer, the issuer's keys, or those that the gate knows beside it, have changed since it was
        // verified. The next try verifies again.
        const { source } = passport;
        if (source !== null && (!source.isCurrent || passport.among !== state.issuersAt(gate).name))
          throw new ApiError('overloaded');
        return { kind: 'verified', passport, standing: state.standing(passport, nowMs) };
      }
      case 'overloaded':
        throw new ApiError('overloaded');
      case 'unavailable':
        throw new ApiError('service_unavailable', {
          message: 'Passports cannot be verified now. Try again shortly.',
        });
      default:
        return unreachable(token);
    }
  }

  /** Scanned once for the types of one version of the gate. Null: too much was scanned in this turn. */
  #read(check: ReadyCheck, { pii }: CompiledPolicy, facts: PassportFacts): RequestFacts | null {
    const { asked, request } = check;
    if (facts.kind === 'refused' || pii === null || check.scannedFor === pii.types) return request;
    if (this.#scans.isSpent) return null;
    const scanned = this.#scans.spend(() => ({ ...request, pii: scanPii(asked, pii.types) }));
    check.request = scanned;
    check.scannedFor = pii.types;
    return scanned;
  }

  /**
   * The request as its caller wrote it, without what the controls look for. Its scan was complete, or it
   * would be blocked.
   */
  redacted(check: ReadyCheck, controls: PiiControls | null): Attempt['redacted'] {
    const { types } = must(controls, 'only PII controls redact');
    const { asked, scannedFor } = check;
    const { pii } = check.request;
    const scan = scannedFor === types && pii !== null ? pii : undefined;
    return this.#scans.spend(() => redactRequest(asked, types, scan));
  }

  /** At a gate with PII controls the permission is scanned too, within what a turn may spend on that. */
  contextOf(check: ReadyCheck, gate: CompiledGate | null): RecordContext {
    const { permissionKey, domain } = check.request;
    const { state } = this.#deps;
    const controls = gate?.pii ?? null;
    return {
      permissionKey: controls === null ? permissionKey : this.#onRecord(permissionKey, controls),
      domain:
        controls === null || domain === null
          ? domain
          : this.#scans.spend(() => domainOnRecord(domain, controls)),
      callerMode: check.caller.mode,
      accountId: must(state.accountId, 'state is never unloaded'),
      form: state.recordForm,
    };
  }

  get publicUrl(): string | null {
    return this.#deps.state.publicUrl;
  }

  /** What the person is shown who answers this check. */
  displayOf({ request }: ReadyCheck, gate: CompiledGate | null): ApprovalDisplay | null {
    const { display } = request;
    return this.#scans.spend(() => displayOnApproval(display, gate?.pii ?? null));
  }

  #onRecord(permissionKey: PermissionKey | null, controls: PiiControls): PermissionKey | null {
    return this.#scans.spend(() => permissionOnRecord(permissionKey, controls));
  }
}

/** The record of a hold is in form 2. */
const holdsBeginLater = (): ApiError =>
  new ApiError('service_unavailable', {
    message: 'Money cannot be held yet: records are in form 1 until RECORDS_V2_AFTER_S is over.',
  });

const isPending = (
  policy: CompiledPolicy,
  facts: PassportFacts,
  request: RequestFacts,
  decision: Decision,
): boolean => facts.kind === 'verified' && mayBePending(policy, facts.passport, request, decision);

/** Callers see gates of their own mode only; others are 404 (contract §2). */
export function findGate(
  state: Pick<EnforcementState, 'gate'>,
  gateId: string,
  caller: Pick<Caller, 'mode'>,
): CompiledGate {
  const gate = state.gate(gateId);
  if (gate === null || gate.mode !== caller.mode) throw new ApiError('gate_not_found');
  return gate;
}
