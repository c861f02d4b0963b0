import { mayBePending } from '../../shared/decision/check-approval.ts';
import { isForAMoment } from '../../shared/decision/check-windows.ts';
import { decide, permitCharge } from '../../shared/decision/decide.ts';
import type { Charge, Decision, RequestFacts, VerifiedPassport } from '../../shared/decision/facts.ts';
import { Run, type RunAnswer, type RunEffect, type RunEvent } from '../../shared/decision/run.ts';
import { decideShadow, type ShadowVerdict } from '../../shared/decision/shadow.ts';
import { must } from '../../shared/errors/assert.ts';
import type { ApprovalId, AttestationId } from '../../shared/model/ids.ts';
import { displayOnApproval } from '../../shared/pii/display-on-approval.ts';
import { permissionOnRecord } from '../../shared/pii/permission-on-record.ts';
import { firstPermitOf, type SettlementAnswer } from '../../shared/wire/sync/settlement.ts';
import type { ApprovalBinding } from '../approvals/approval-store.ts';
import type { NewRecord } from '../attestations/append-records.ts';
import { sourceOf } from '../book/held-units.ts';
import type { AskGroup } from '../book/take-units.ts';
import type { DecisionDeps } from './deps.ts';
import { askFor, type DrawnWindows, drawnWith, holdsFor, shortWindows } from './drawn-windows.ts';
import type { CheckInput, EnforcementCall } from './enforcement.ts';
import { newRecord } from './new-record.ts';
import type { LookUp, NewPermit, NewSuspend } from './settled-request.ts';
import type { ClaimQuestion, PermitKey, SettlementId } from './settlement.ts';
import type { WindowBook } from './window-book.ts';

/**
 * The run of one request in a batch, inside one transaction: its next question and its outcome. Does no I/O:
 * `decide-together.ts` queries the database once for the whole batch.
 *
 * A request that depends on a neighbour's fate, or lost a race, is decided `again` by the next transaction,
 * which finds the neighbour committed.
 */
export class CheckRun {
  readonly call: EnforcementCall;
  readonly input: CheckInput;
  readonly #random: DecisionDeps['random'];
  readonly #run: Run;
  readonly #key: PermitKey | null;
  #next: RunEffect | 'again' | 'prove' = { kind: 'decide' };
  /** Id of the record that was appended or settled. */
  #attestationId: AttestationId | null = null;
  #offeredId: ApprovalId | null = null;
  /** Set once the settlement is written; voided if the outcome of the commit is unknown. */
  #settledId: SettlementId | null = null;
  /** Units that the settlement takes from the ledger. */
  #ask: AskGroup = [];
  /** Id of its last question. */
  #readerId: AttestationId | null = null;
  /** Ids of questions that may have read something. */
  readonly #readings = new Set<AttestationId>();
  /** Id of the question that read its answer. */
  #readAs: AttestationId | null = null;

  constructor({ random }: Pick<DecisionDeps, 'random'>, call: EnforcementCall, input: CheckInput) {
    this.#random = random;
    this.call = call;
    this.input = input;
    this.#run = new Run(input.request, { isDryRun: call.isTest, settlesAll: true });
    this.#key = call.isTest ? null : keyOf(call, input);
  }

  /**
   * The next step. `again` ends it for this transaction; so does `prove`, because its proof has to be looked
   * at first.
   */
  get next(): RunEffect['kind'] | 'again' | 'prove' {
    return typeof this.#next === 'string' ? this.#next : this.#next.kind;
  }

  /** Null: no outcome in this transaction. */
  get answer(): RunAnswer | null {
    return typeof this.#next !== 'string' && this.#next.kind === 'answer' ? this.#next.answer : null;
  }

  get decision(): Decision {
    return this.#run.decision;
  }

  get attestationId(): AttestationId {
    return must(this.#attestationId, 'a decision that is answered is on record');
  }

  /** Input of the last decision. */
  get request(): RequestFacts {
    return this.#run.known(this.input.request);
  }

  /** What to void if the outcome of the commit stays unknown. */
  get unknownIds(): readonly SettlementId[] {
    return [this.#answeringReader(), this.#settledId].filter((id) => id !== null);
  }

  /** Returns and forgets the readings that the answer does not rest on, for the caller to drop. */
  takeUnusedReadings(): readonly AttestationId[] {
    const used = this.#answeringReader();
    const unused = [...this.#readings].filter((id) => id !== used);
    this.#readings.clear();
    return unused;
  }

  get ask(): AskGroup {
    return this.#ask;
  }

  /**
   * Decides by this book; null if the result depends on what a neighbour takes. Not final before `conclude`:
   * the kind of miss depends on how much of the limit is lent. With its first PERMIT found no limit counts:
   * neither what neighbours take, nor what it booked for itself before.
   */
  consider(book: WindowBook): Decision | null {
    const { policy, facts, drawn, nowMs } = this.input;
    const by = (asRead: boolean) => decide(policy, facts, this.request, book.view(drawn, asRead), nowMs);
    const decision = by(false);
    const isShort = missesWindow(decision) || mayBeShort(decision, drawn);
    if (!isShort || this.#run.isReplay || !book.isTakenFrom(drawn)) return decision;
    const alone = by(true);
    if (!missesWindow(decision)) return alone.outcome === decision.outcome ? decision : null;
    return missesWindow(alone) ? alone : null;
  }

  /** Continues with the result of `consider`, and takes its units from the book. */
  conclude(decision: Decision | null, book: WindowBook): void {
    if (decision === null) {
      this.decideAgain();
      return;
    }
    if (decision.unknown === 'proof') {
      this.#next = 'prove';
      return;
    }
    const { policy, passport } = this.input;
    const isPending = passport !== null && mayBePending(policy, passport, this.request, decision);
    const next = this.#run.decided(decision, isPending);
    const isSettled = next.kind === 'settle_permit' || next.kind === 'settle_suspend';
    this.#next =
      !isSettled || book.take(this.#drawn(), this.#charge(), this.#copyName(next)) ? next : 'again';
  }

  decideAgain(): void {
    this.#next = 'again';
  }

  lookUp(book: WindowBook): LookUp {
    const { drawn, nowMs } = this.input;
    const { request } = this;
    const need = permitCharge(request, this.decision.amountMicroUsd);
    const question = this.#question();
    // Reads the PERMIT of the key even if the approval is the answer.
    if (this.#key !== null) this.#readings.add(question.readerId);
    return {
      ...question,
      approvalId: request.approval === 'unasked' ? request.approvalId : null,
      binding: this.#binding(),
      short: shortWindows(drawn, book.view(drawn, true), need, nowMs),
    };
  }

  permit(): NewPermit {
    const { nowMs } = this.input;
    const { approvalId } = this.request;
    return {
      ...this.#question(),
      record: {
        ...this.record(),
        moneyFrom: holdsFor(this.#drawn(), { ...this.#charge(), requests: 0 }, nowMs).map(sourceOf),
      },
      approvalId,
      binding: this.#binding(),
      holder: null,
      held: holdsFor(this.#drawn(), this.#charge(), nowMs),
    };
  }

  suspend(): NewSuspend {
    const { gate: named, policy, passport, request, drawn, nowMs } = this.input;
    const { decision } = this;
    const expiresInMs = decision.approvalExpiresInMs;
    this.#offeredId = this.#newId('appr');
    return {
      ...this.#question(),
      binding: must(this.#binding(), 'a SUSPEND is about a passport at a gate'),
      approvalId: this.#offeredId,
      passport: must(passport, 'a SUSPEND is about a passport'),
      gate: must(named, 'a SUSPEND is at a gate'),
      permissionKey: permissionOnRecord(request.permissionKey, policy.pii),
      amountMicroUsd: decision.amountMicroUsd,
      display: displayOnApproval(request.display, policy.pii),
      askedBy: this.call.caller.actor.id,
      owner: passport?.owner ?? null,
      tokenUser: passport === null ? '' : tokenUserOf(passport),
      isAsserted: this.call.verdict.kind === 'named',
      shadow: this.#shadow(),
      constraintsEvaluated: decision.evaluated,
      conditions: decision.conditions,
      pii: decision.pii,
      expiresInMs: must(expiresInMs, 'a SUSPEND that waits for nothing yet opens an approval'),
      holds: holdsFor(drawn, this.#charge(), nowMs),
      from: null,
    };
  }

  /** A BLOCK, or any decision of a gate test, which only needs a record. */
  record(): NewRecord {
    this.#attestationId = this.#newId('att');
    const { input, decision } = this;
    return newRecord(this.call, { ...input, decision, shadow: this.#shadow() }, this.#attestationId);
  }

  /** On the request of the last decision. Not of a gate test, which counts nowhere. */
  #shadow(): ShadowVerdict | null {
    const { gate, facts, shadowPii, nowMs } = this.input;
    if (gate === null || gate.shadow === null || this.call.isTest) return null;
    const scanned = () => {
      if (shadowPii === 'unscanned') return null;
      return shadowPii === null ? this.request : { ...this.request, pii: shadowPii };
    };
    return decideShadow(gate.shadow, facts, scanned, nowMs);
  }

  recorded(): void {
    this.#next = this.#run.on({ kind: 'written' });
  }

  /** Takes the result of the look-up. */
  found(answer: SettlementAnswer): void {
    if (answer.kind === 'none' && this.#readerId !== null) this.#readings.delete(this.#readerId);
    const event = this.#eventOf(answer);
    this.#next = event === null ? 'again' : this.#run.on(event);
  }

  /**
   * Takes the outcome of the settlement. A new decision, unlike an answer with an earlier PERMIT, is left to
   * the next transaction, because this one holds locks by now.
   */
  settled(answer: SettlementAnswer, book: WindowBook): void {
    const ask = askFor(this.#drawn(), this.#charge());
    const event = this.#eventOf(answer);
    if (event === null) {
      this.decideAgain();
      return;
    }
    const isOpened = answer.kind === 'suspended' && answer.is_new;
    if (event.kind === 'committed' || isOpened) {
      this.#settledId = event.kind === 'committed' ? this.#attestationId : this.#offeredId;
      this.#ask = ask;
    }
    this.#next = this.#run.on(event);
    if (event.kind === 'replayed') this.conclude(this.consider(book), book);
    const isRecorded = event.kind === 'blocked' && this.next === 'record';
    if (this.next !== 'answer' && !isRecorded) this.decideAgain();
  }

  /** Null: lost a race. */
  #eventOf(answer: SettlementAnswer): RunEvent | null {
    switch (answer.kind) {
      case 'none':
        return { kind: 'none', mayChange: answer.may_change };
      case 'approval':
        return { kind: 'approval', state: answer.standing, expiresAtMs: answer.expires_at_ms };
      case 'suspended': {
        const { approval_id: approvalId, expires_at_ms: expiresAtMs } = answer;
        if (!answer.is_new) this.#hasRead();
        return { kind: 'suspended', approval: { approvalId, expiresAtMs } };
      }
      case 'replayed':
        this.#hasRead();
        return { kind: 'replayed', first: firstPermitOf(answer.first) };
      case 'blocked':
        return { kind: 'blocked', reason: answer.reason };
      case 'committed':
      case 'conflict':
        return { kind: answer.kind };
      case 'late':
      case 'voided':
      case 'refused':
        return null;
    }
  }

  #hasRead(): void {
    this.#readAs = this.#readerId;
    if (this.#readerId !== null) this.#readings.add(this.#readerId);
  }

  #answeringReader(): AttestationId | null {
    const { answer } = this;
    return answer?.kind === 'replay' || answer?.kind === 'suspended' ? this.#readAs : null;
  }

  #question(): ClaimQuestion {
    const readerId = this.#newId('att');
    this.#readerId = readerId;
    const { request, nowMs } = this.input;
    return {
      key: this.#key,
      requestHash: request.requestHash,
      readerId,
      source: 'control-plane',
      askedAtMs: nowMs,
    };
  }

  /** Null: an approval is bound to a gate and a passport, and one of them is missing. */
  #binding(): ApprovalBinding | null {
    const { gate, passport, request } = this.input;
    if (gate === null || passport === null) return null;
    return {
      passportId: passport.passportId,
      gateId: gate.gateId,
      gateVersion: gate.policyVersion,
      requestHash: request.requestHash,
      tokenUser: tokenUserOf(passport),
    };
  }

  /** Equal for all copies of the request; null: the request has no key, so a lookalike is no copy. */
  #copyName({ kind }: RunEffect): string | null {
    const { passport, gate, request } = this.input;
    const user = passport === null ? '' : tokenUserOf(passport);
    const of = `${passport?.passportId} ${gate?.gateId} ${request.requestHash} ${user}`;
    if (kind === 'settle_suspend') return of;
    return this.#key === null ? null : `${of} ${this.#key.idempotencyKey}`;
  }

  #newId<Kind extends 'att' | 'appr'>(kind: Kind) {
    return this.#random.newId(kind, this.input.nowMs);
  }

  /** What the decision draws on. */
  #drawn(): DrawnWindows {
    return drawnWith(this.input.drawn, this.decision.standingApproval);
  }

  #charge(): Charge {
    return must(this.decision.charge, 'what is settled has a charge');
  }
}

const missesWindow = ({ limitMiss }: Decision): boolean => limitMiss !== null && limitMiss.resetAtMs !== null;

/** Waits for a person, and a neighbour may have taken what is left of a standing approval. */
const mayBeShort = ({ outcome }: Decision, { standingApprovals }: DrawnWindows): boolean =>
  outcome === 'SUSPEND' && standingApprovals.length > 0;

/** How much of a limit is lent matters only if the limit was missed. */
export const needsLent = (decision: Decision | null): boolean =>
  decision?.limitMiss != null && missesWindow(decision) && !isForAMoment(decision.limitMiss);

/** Of a passport of this service its row says it. */
const tokenUserOf = ({ user, source }: VerifiedPassport): string => (source === null ? '' : (user ?? ''));

/** A key is scoped to a verified passport, and means nothing without one. */
const keyOf = ({ caller }: EnforcementCall, { request, passport, gate }: CheckInput): PermitKey | null =>
  request.idempotencyKey === null || passport === null
    ? null
    : {
        passportId: passport.passportId,
        scopeId: gate?.gateId ?? caller.accountId,
        idempotencyKey: request.idempotencyKey,
      };
