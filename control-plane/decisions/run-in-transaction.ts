import { mayBePending } from '../../shared/decision/check-approval.ts';
import { isForAMoment } from '../../shared/decision/check-windows.ts';
import { decide, permitCharge } from '../../shared/decision/decide.ts';
import {
  type Charge,
  type Decision,
  noWindows,
  type QuotaView,
  type RequestFacts,
} from '../../shared/decision/facts.ts';
import { Run, type RunAnswer, type RunEffect, type RunEvent } from '../../shared/decision/run.ts';
import { InvariantError, must, unreachable } from '../../shared/errors/assert.ts';
import type { AttestationId } from '../../shared/model/ids.ts';
import { permissionOnRecord } from '../../shared/pii/permission-on-record.ts';
import { type ApprovalBinding, readPresentedApproval } from '../approvals/approval-store.ts';
import { consumeApproval } from '../approvals/consume-approval.ts';
import { openApproval } from '../approvals/open-approval.ts';
import { appendRecords } from '../attestations/append-records.ts';
import type { Transaction } from '../base/database.ts';
import { holdPolicy } from '../gates/gate-store.ts';
import { takeUnits } from '../quota/take-units.ts';
import { limitsMayChange, type ShortWindow } from '../quota/unused-units.ts';
import type { CheckInput, EnforcementCall } from './decide-request.ts';
import type { DecisionDeps } from './deps.ts';
import { askedView, askFor, holdsFor, shortWindows, withoutLent } from './drawn-windows.ts';
import { decisionsLimits } from './limits.ts';
import { findWaiting } from './look-up.ts';
import { newRecord } from './new-record.ts';
import {
  type ClaimedPermit,
  type ClaimQuestion,
  dropReadings,
  dropSettlements,
  findClaims,
  insertSettlements,
  type PermitKey,
  readSettlements,
  type SettlementId,
} from './settlement-store.ts';

type RunDeps = Pick<DecisionDeps, 'random' | 'signingKeys' | 'appending'>;

/**
 * The run of one request inside one transaction of the control plane: what it has to ask is read, and what it
 * settles is written, by the same transaction that commits its record. Rows are locked in the order that
 * storage/locks.ts names. What others took or changed between the reading and the taking is noticed by the
 * ledger and by `holdPolicy`: the settlement is undone to a savepoint, all is read again and decided again.
 */
export class RunInTransaction {
  readonly #tx: Transaction;
  readonly #deps: RunDeps;
  readonly #call: EnforcementCall;
  #input: CheckInput;
  readonly #readAgain: () => Promise<CheckInput>;
  readonly #run: Run;
  readonly #key: PermitKey | null;
  #view: QuotaView = noWindows;
  #tries = 0;
  /** Of the record that was appended or settled last. */
  #attestationId: AttestationId | null = null;
  /** What is true with the commit. */
  #settledId: SettlementId | null = null;
  /** Under which it has read settlements of others; the last one is what it would be answered with. */
  readonly #readerIds: AttestationId[] = [];

  constructor(
    tx: Transaction,
    deps: RunDeps,
    call: EnforcementCall,
    { input, readAgain }: { readonly input: CheckInput; readonly readAgain: () => Promise<CheckInput> },
  ) {
    this.#tx = tx;
    this.#deps = deps;
    this.#call = call;
    this.#input = input;
    this.#readAgain = readAgain;
    this.#run = new Run(input.request, { isDryRun: call.isTest, settlesAll: true });
    this.#key = call.isTest ? null : keyOf(call, input);
  }

  get decision(): Decision {
    return this.#run.decision;
  }

  get attestationId(): AttestationId {
    return must(this.#attestationId, 'a decision that is answered is on record');
  }

  /** What the last decision was made on. */
  get input(): CheckInput {
    return this.#input;
  }

  /** As it was decided on last. */
  get request(): RequestFacts {
    return this.#run.known(this.#input.request);
  }

  /** What has to be voided if it stays unknown whether the transaction was committed. */
  get unknownIds(): readonly SettlementId[] {
    return this.#settledId === null ? this.#readerIds : [...this.#readerIds, this.#settledId];
  }

  /**
   * Null: it has to wait for what others have begun. The transaction is rolled back, and another one tries.
   */
  async answer(): Promise<RunAnswer | null> {
    this.#view = await this.#readView();
    let effect = await this.#decide();
    while (effect.kind !== 'answer') {
      if (effect.kind === 'wait') return null;
      effect = await this.#perform(effect);
    }
    const isAnsweredWith = effect.answer.kind === 'replay' || effect.answer.kind === 'suspended';
    const unused = this.#readerIds.splice(0, this.#readerIds.length - (isAnsweredWith ? 1 : 0));
    await dropReadings(this.#tx, unused);
    return effect.answer;
  }

  #newReader(): Pick<ClaimQuestion, 'readerId' | 'source' | 'askedAtMs'> {
    return { readerId: this.#newRecordId(), source: 'control-plane', askedAtMs: this.#input.nowMs };
  }

  async #perform(effect: Exclude<RunEffect, { kind: 'answer' | 'wait' }>): Promise<RunEffect> {
    switch (effect.kind) {
      case 'decide':
        return this.#decide();
      case 'look_up':
        return this.#run.on(await this.#lookUp());
      case 'settle_permit':
        return this.#run.on(await this.#orRolledBack(() => this.#settlePermit()));
      case 'settle_suspend':
        return this.#run.on(await this.#orRolledBack(() => this.#settleSuspend()));
      case 'record':
        // A BLOCK, or any decision of a gate test: the record is all there is.
        await this.#append(effect.decision, this.#newRecordId());
        return this.#run.on({ kind: 'written' });
      case 'ask_leases':
      case 'void':
        throw new InvariantError('a transaction knows what is left, and when it is too late');
      default:
        return unreachable(effect);
    }
  }

  async #decide(): Promise<RunEffect> {
    const { policy, facts, passport, drawn, nowMs } = this.#input;
    const { request } = this;
    let decision = decide(policy, facts, request, this.#view, nowMs);
    const { limitMiss } = decision;
    // Only what says how a limit was missed has to know what of it is lent.
    if (limitMiss !== null && limitMiss.resetAtMs !== null && !isForAMoment(limitMiss)) {
      this.#view = await withoutLent(this.#tx, drawn, this.#view, nowMs);
      decision = decide(policy, facts, request, this.#view, nowMs);
    }
    return this.#run.decided(
      decision,
      passport !== null && mayBePending(policy, passport, request, decision),
    );
  }

  async #readView(): Promise<QuotaView> {
    const { drawn, nowMs } = this.#input;
    const isUnlimited = drawn.spend.length === 0 && drawn.rate.length === 0;
    return isUnlimited ? noWindows : askedView(this.#tx, drawn, nowMs);
  }

  /** Units that others have not used yet are read before and after the key, as for a sidecar (look-up.ts). */
  async #lookUp(): Promise<RunEvent> {
    const { nowMs } = this.#input;
    const { request } = this;
    const presented = request.approval === 'unasked' ? await this.#readPresented() : null;
    if (presented !== null && refusing.has(presented.state)) return presented;
    const short = [this.#shortWindows()];
    const [couldChange = false] = await limitsMayChange(this.#tx, short);
    const reader = this.#newReader();
    const earlier = await this.#findEarlier(reader);
    if (earlier !== null) return earlier;
    const [mayChange = false] = couldChange ? [true] : await limitsMayChange(this.#tx, short);
    if (presented !== null) return presented;
    const binding = this.#binding();
    const waiting = binding === null ? null : await findWaiting(this.#tx, { binding, reader }, nowMs);
    if (waiting === null) return { kind: 'none', mayChange };
    this.#readerIds.push(reader.readerId);
    const { approvalId, expiresAtMs } = waiting;
    return { kind: 'suspended', approval: { approvalId, expiresAtMs } };
  }

  #shortWindows(): ShortWindow[] {
    const { drawn, nowMs } = this.#input;
    const need = permitCharge(this.request, this.decision.amountMicroUsd);
    return shortWindows(drawn, this.#view, need, nowMs);
  }

  async #readPresented(): Promise<Extract<RunEvent, { kind: 'approval' }>> {
    const approvalId = must(this.request.approvalId, 'an approval that is not known was presented');
    const binding = must(this.#binding(), 'only at a gate an approval is looked at');
    const { nowMs } = this.#input;
    return { kind: 'approval', ...(await readPresentedApproval(this.#tx, approvalId, binding, nowMs)) };
  }

  /** Null: without a gate or without a passport there is nothing that an approval could be bound to. */
  #binding(): ApprovalBinding | null {
    const { gate, passport, request } = this.#input;
    if (gate === null || passport === null) return null;
    return {
      passportId: passport.passportId,
      gateId: gate.gateId,
      gateVersion: gate.policyVersion,
      requestHash: request.requestHash,
    };
  }

  /** Null: its key has no PERMIT. */
  async #findEarlier(reader: Omit<ClaimQuestion, 'key' | 'requestHash'>): Promise<RunEvent | null> {
    const { request, nowMs } = this.#input;
    const asked = { key: this.#key, requestHash: request.requestHash, ...reader };
    const [earlier = null] = await findClaims(this.#tx, [asked], nowMs);
    return earlier === null ? null : this.#claimedBy(earlier, reader);
  }

  #claimedBy(earlier: ClaimedPermit, { readerId }: Pick<ClaimQuestion, 'readerId'>): RunEvent {
    if (earlier.requestHash !== this.#input.request.requestHash) return { kind: 'conflict' };
    this.#readerIds.push(readerId);
    return { kind: 'replayed', first: earlier };
  }

  /**
   * Unless it came true, or has found what came true before, everything that the settlement wrote is undone.
   */
  async #orRolledBack(attempt: () => Promise<RunEvent>): Promise<RunEvent> {
    await this.#tx`SAVEPOINT before_settlement`;
    const event = await attempt();
    if (event.kind === 'committed' || event.kind === 'suspended' || event.kind === 'replayed') return event;
    await this.#tx`ROLLBACK TO SAVEPOINT before_settlement`;
    if (event.kind !== 'refused') return event;
    this.#tries += 1;
    if (this.#tries >= decisionsLimits.enforcementTriesMax) return { kind: 'passed' };
    this.#input = await this.#readAgain();
    this.#view = await this.#readView();
    return event;
  }

  async #settlePermit(): Promise<RunEvent> {
    const { request, nowMs, drawn } = this.#input;
    const id = this.#newRecordId();
    const reader = this.#newReader();
    const { record } = newRecord(this.#call, { ...this.#input, decision: this.decision }, id);
    const [verdict] = await insertSettlements(
      this.#tx,
      [
        {
          id,
          key: this.#key,
          requestHash: request.requestHash,
          answer: record,
          ...reader,
          took: [],
          held: holdsFor(drawn, this.#charge(), nowMs),
        },
      ],
      nowMs,
    );
    if (verdict?.kind === 'claimed') return this.#claimedBy(verdict.by, reader);
    if (request.approvalId !== null) {
      const binding = must(this.#binding(), 'an approval that lets a request pass is bound to it');
      const used = await consumeApproval(this.#tx, request.approvalId, binding, id, nowMs);
      if (used !== 'consumed') return { kind: 'approval', ...used };
    }
    await this.#append(this.decision, id);
    if (!(await this.#take())) return { kind: 'refused' };
    this.#settledId = id;
    return { kind: 'committed' };
  }

  async #settleSuspend(): Promise<RunEvent> {
    const { gate: named, policy, passport, request, drawn, nowMs } = this.#input;
    const { decision } = this;
    const gate = must(named, 'a SUSPEND is at a gate');
    const offeredId = this.#deps.random.newId('appr', nowMs);
    const reader = this.#newReader();
    // A request whose key has a PERMIT already needs no approval.
    const earlier = await this.#findEarlier(reader);
    if (earlier !== null) return earlier;
    // So that it can be voided if it stays unknown whether it was committed. It frees what it holds itself.
    const answer = { constraintsEvaluated: decision.evaluated, pii: decision.pii };
    const settlement = { id: offeredId, key: null, requestHash: request.requestHash, answer, ...reader };
    await insertSettlements(this.#tx, [{ ...settlement, took: [], held: [] }], nowMs);
    if (!(await holdPolicy(this.#tx, gate))) return { kind: 'refused' };
    const opened = await openApproval(this.#tx, this.#deps, {
      approvalId: offeredId,
      passport: must(passport, 'a SUSPEND is about a passport'),
      gate,
      requestHash: request.requestHash,
      permissionKey: permissionOnRecord(request.permissionKey, policy.pii),
      amountMicroUsd: decision.amountMicroUsd,
      constraintsEvaluated: decision.evaluated,
      pii: decision.pii,
      expiresInMs: must(
        decision.approvalExpiresInMs,
        'a SUSPEND that waits for nothing yet opens an approval',
      ),
      holds: holdsFor(drawn, this.#charge(), nowMs),
      nowMs,
    });
    if (opened === null) return { kind: 'blocked', reason: 'approvals_pending_exceeded' };
    const { approvalId, expiresAtMs } = opened;
    if (opened.isNew) {
      if (!(await this.#take())) return { kind: 'refused' };
      this.#settledId = approvalId;
    } else {
      await dropSettlements(this.#tx, [offeredId]);
      const gone = await readSettlements(this.#tx, [{ reads: approvalId, ...reader }], nowMs);
      // Just voided: with the next look it is gone.
      if (gone.size > 0) return { kind: 'passed' };
      this.#readerIds.push(reader.readerId);
    }
    return { kind: 'suspended', approval: { approvalId, expiresAtMs } };
  }

  async #append(decision: Decision, id: AttestationId): Promise<void> {
    await appendRecords(this.#tx, this.#deps, [newRecord(this.#call, { ...this.#input, decision }, id)]);
    this.#attestationId = id;
  }

  #newRecordId(): AttestationId {
    return this.#deps.random.newId('att', this.#input.nowMs);
  }

  #charge(): Charge {
    return must(this.decision.charge, 'what is settled has a charge');
  }

  /**
   * Takes the units from the ledger, and locks their windows until the commit: the last statement. False:
   * others were quicker.
   */
  async #take(): Promise<boolean> {
    const { drawn, nowMs } = this.#input;
    const [grant] = await takeUnits(this.#tx, [askFor(drawn, this.#charge())], nowMs);
    return must(grant, 'an ask is answered').isGranted;
  }
}

/** `used` is not among them: it may be the first PERMIT of the key that used it. */
const refusing: ReadonlySet<string> = new Set(['mismatch', 'denied', 'expired']);

/** A key is scoped to a verified passport: without one it means nothing. */
const keyOf = ({ caller }: EnforcementCall, { request, passport, gate }: CheckInput): PermitKey | null =>
  request.idempotencyKey === null || passport === null
    ? null
    : {
        passportId: passport.passportId,
        scopeId: gate?.gateId ?? caller.accountId,
        idempotencyKey: request.idempotencyKey,
      };
