import { permitCharge } from '../../shared/decision/decide.ts';
import type { Decision, RequestFacts } from '../../shared/decision/facts.ts';
import {
  type FirstPermit,
  type PendingApproval,
  Run,
  type RunAnswer,
  type RunEffect,
  type RunEvent,
} from '../../shared/decision/run.ts';
import { undecidedShadow } from '../../shared/decision/shadow.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { must, unreachable } from '../../shared/errors/assert.ts';
import type { AttestationId } from '../../shared/model/ids.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import type { Random } from '../../shared/runtime/random.ts';
import type { RetryWaits } from '../../shared/runtime/retry-waits.ts';
import { type Answered, renderFirstPermit } from '../../shared/wire/api/decision.ts';
import type { TraceHeaders } from '../../shared/wire/api/trace-context.ts';
import type { Answers } from '../decide/answers.ts';
import type { Learned, ReadyCheck } from '../decide/check.ts';
import { type Attempt, statementOf } from '../decide/record.ts';
import { answerReply, DecisionReply } from '../decide/replies.ts';
import type { Section } from '../decide/section.ts';
import type { Shortage } from '../quota/held-view.ts';
import type { LeaseHolder } from '../quota/lease-holder.ts';
import { shortWindows } from '../quota/short-windows.ts';
import type { OnSettled, SettlementOutcome } from './open-settlement.ts';
import { newReaderId, type Prepared, preparePermit, prepareSuspend } from './prepare.ts';
import { lookUpOf } from './settlement-of.ts';
import { eventOf, fateOf, hasNotArrived, type ReadingFate, readingFateOf } from './settlement-outcome.ts';
import type { SettlementToVoid, SettlementVoids } from './settlement-voids.ts';
import type { Settlements } from './settlements.ts';

export interface AskingDeps {
  readonly section: Section;
  readonly answers: Answers;
  readonly leases: Pick<LeaseHolder, 'holder' | 'ask' | 'reserve' | 'keep' | 'giveBack' | 'passOn'>;
  readonly settlements: Pick<Settlements, 'send'>;
  readonly voids: SettlementVoids;
  readonly retryWaits: RetryWaits;
  readonly random: Random;
}

/**
 * A check that has to ask before it is answered: the host of its run (shared/decision/run.ts). It does what
 * the run says, and reports what came of it.
 *
 *     decided ──> perform ──> leases, settlements, spool ──report──> run ──> perform ... ──> answered
 *        ^           └──decide──> `decideAgain` ──section──┐
 *        └─────────────────────────────────────────────────┘
 */
export class Asking implements Learned {
  /** Windows with less left in the ledger than the request needs. Null: the ledger has refused none. */
  shortage: Shortage | null = null;
  readonly #deps: AskingDeps;
  readonly #check: ReadyCheck;
  readonly #run: Run;
  /** All its waiting ends here, counted from its first question on. */
  readonly #untilMs: MonotonicMillis;
  readonly #decideAgain: () => void;
  #attempt: Attempt;
  /** How often it has waited for what others have begun. */
  #waits = 0;
  /** The settlement that was sent last. */
  #sent: Sent | null = null;
  /** What voids each reading with which it may be answered; the last one counts. */
  readonly #readings: SettlementToVoid[] = [];

  /** `decideAgain`: takes the check through the section once more, and calls `decided`. */
  constructor(
    deps: AskingDeps,
    check: ReadyCheck,
    options: {
      readonly attempt: Attempt;
      readonly untilMs: MonotonicMillis;
      readonly decideAgain: () => void;
    },
  ) {
    this.#deps = deps;
    this.#check = check;
    this.#attempt = options.attempt;
    this.#run = new Run(options.attempt.request);
    this.#untilMs = options.untilMs;
    this.#decideAgain = options.decideAgain;
  }

  known(request: RequestFacts): RequestFacts {
    return this.#run.known(request);
  }

  /** In the section that decided. Throws as the section does. */
  decided(attempt: Attempt): void {
    this.#attempt = attempt;
    this.#perform(this.#run.decided(attempt.decision, attempt.mayBePending));
  }

  /** A permit that was settled for others is theirs alone again, unless the client was told of it. */
  end(isReadTold: boolean): void {
    const unused = this.#readings.splice(0, this.#readings.length - (isReadTold ? 1 : 0));
    for (const reading of unused) this.#deps.voids.void(reading, ignore);
  }

  #perform(effect: RunEffect): void {
    const { section } = this.#deps;
    switch (effect.kind) {
      case 'decide':
        this.#decideAgain();
        return;
      case 'ask_leases':
        this.#askLeases();
        return;
      case 'look_up':
        this.#lookUp();
        return;
      case 'wait':
        this.#wait();
        return;
      case 'settle_permit':
        this.#settle(preparePermit(this.#deps, this.#attempt, this.#recordContext));
        return;
      case 'settle_suspend':
        this.#settle(prepareSuspend(this.#deps, this.#attempt, this.#suspendContext));
        return;
      case 'record': {
        const { decision } = effect;
        const redacted = decision.isRedacted ? this.#attempt.redacted : null;
        const shadow = decision === this.#attempt.decision ? this.#attempt.shadow : this.#shadowOfAnother;
        const attempt = { ...this.#attempt, attestationId: this.#ownId, decision, redacted, shadow };
        section.record(this.#check, attempt);
        return;
      }
      case 'void':
        this.#void(must(this.#sent, 'a run voids what it has settled'), () =>
          this.#report({ kind: 'written' }),
        );
        return;
      case 'answer':
        this.#answer(effect.answer);
        return;
      default:
        unreachable(effect);
    }
  }

  #report(event: RunEvent): void {
    try {
      this.#perform(this.#run.on(event));
    } catch (error) {
      this.#deps.answers.answerError(this.#check, error);
    }
  }

  /** False: its client has gone, or the deadline has answered it. Nothing goes on then. */
  get #isWanted(): boolean {
    return this.#deps.answers.isWanted(this.#check);
  }

  /** What was settled may be on record under the id of its attempt, and be voided there. */
  get #ownId(): AttestationId {
    const { attestationId, nowMs } = this.#attempt;
    return this.#sent === null ? attestationId : this.#deps.random.newId('att', nowMs);
  }

  /** What the control plane knew better was not asked for the shadow. */
  get #shadowOfAnother(): Attempt['shadow'] {
    const { shadow } = this.#attempt;
    return shadow === null ? null : undecidedShadow(shadow.policy_hash, 'state');
  }

  get #recordContext() {
    return this.#deps.section.contextOf(this.#check, this.#attempt.gate);
  }

  get #suspendContext() {
    const { section } = this.#deps;
    return {
      ...this.#recordContext,
      display: section.displayOf(this.#check, this.#attempt.gate),
      askedBy: this.#check.caller.keyId,
    };
  }

  /** What the PERMIT takes, and from which windows. */
  get #need() {
    const { decision, view, request } = this.#attempt;
    return {
      view: must(view, 'only a passport lacks units'),
      need: permitCharge(request, decision.amountMicroUsd),
    };
  }

  /**
   * All missing units at once, money and requests. A check that waits for a person needs a request to be
   * left, and takes none.
   */
  #askLeases(): void {
    const { view, need } = this.#need;
    this.#deps.leases.ask(view, need, this.#untilMs, (outcome) => {
      if (!this.#isWanted) return;
      if (outcome.kind === 'refused') this.shortage = outcome.shortage;
      this.#report(outcome);
    });
  }

  /** What the ledger has refused is asked for anew: units may be there again. */
  #wait(): void {
    const { facts } = this.#attempt;
    const owner = facts.kind === 'verified' ? facts.passport.passportId : '';
    this.#deps.retryWaits.wait({ owner, waits: this.#waits++, untilMs: this.#untilMs }, (kind) => {
      if (!this.#isWanted) return;
      this.shortage = null;
      this.#report({ kind });
    });
  }

  get #trace(): TraceHeaders {
    const { traceparent, tracestate } = this.#check;
    return { traceparent, tracestate };
  }

  #lookUp(): void {
    const { settlements, leases, voids } = this.#deps;
    const { shortage } = this;
    const readerId = newReaderId(this.#deps, this.#attempt);
    const short = shortage === null ? [] : shortWindows(this.#need, shortage);
    const lookUp = lookUpOf(this.#attempt, { readerId, short });
    const onLookedUp: OnSettled = (outcome, isCertain) => {
      const reading = readingFateOf(outcome, isCertain);
      if (reading === 'read') this.#readings.push(voidOfReading(readerId));
      else if (reading === 'void') voids.void(voidOfReading(readerId), ignore);
      if (this.#isWanted) this.#report(eventOf(outcome, 'looked_up'));
    };
    settlements.send(lookUp, leases.holder, this.#untilMs, onLookedUp, this.#trace);
  }

  /** The reservation ends with the outcome. A settlement that answers no request is voided. */
  #settle(prepared: Prepared): void {
    const { leases, settlements } = this.#deps;
    const sent: Sent = { ...prepared, reading: 'none' };
    this.#sent = sent;
    const onSettled: OnSettled = (outcome) => this.#onSettled(sent, outcome);
    settlements.send(prepared.settlement, leases.holder, this.#untilMs, onSettled, this.#trace);
  }

  #onSettled(sent: Sent, outcome: SettlementOutcome): void {
    const { leases, voids } = this.#deps;
    const { settlement, reservation, readerId } = sent;
    const isPermit = settlement.kind === 'permit';
    sent.reading = readingFateOf(outcome, hasNotArrived(outcome));
    if (outcome.kind === 'replayed' && isPermit)
      this.#readings.push({ ...sent.voids, took: [], reader_id: readerId });
    else if (sent.reading === 'read') this.#readings.push(voidOfReading(readerId));
    const fate = fateOf(outcome, { isPermit, isWanted: this.#isWanted });
    const goOn = () => {
      if (this.#isWanted) this.#report(eventOf(outcome, 'settled'));
    };
    switch (fate) {
      case 'undo':
        this.#report({ kind: 'late' });
        return;
      case 'void':
        this.#void(sent, goOn);
        return;
      case 'keep':
        leases.keep(reservation);
        break;
      case 'pass_on':
        leases.passOn(reservation);
        break;
      case 'give_back':
        leases.giveBack(reservation);
        if (sent.reading === 'void') voids.void(voidOfReading(readerId), ignore);
        break;
      default:
        unreachable(fate);
    }
    goOn();
  }

  #void({ reservation, reading, readerId, voids }: Sent, onWritten: () => void): void {
    this.#deps.leases.passOn(reservation);
    this.#deps.voids.void(reading === 'void' ? { ...voids, reader_id: readerId } : voids, onWritten);
  }

  #answer(answer: RunAnswer): void {
    switch (answer.kind) {
      case 'decision':
        this.#answerWith(this.#attempt);
        return;
      case 'suspended':
        this.#answerSuspended(answer.approval);
        return;
      case 'replay':
        this.#answerFirst(answer.first);
        return;
      case 'error':
        throw new ApiError(answer.code);
      default:
        unreachable(answer);
    }
  }

  #answerWith(answered: Answered, isRead = false): void {
    const { decision } = this.#attempt;
    if (answered.attestationId !== null) this.#state(answered.attestationId, decision);
    this.#deps.answers.answerWith(this.#check, new DecisionReply(decision, answered, this.#check), isRead);
  }

  /** What its receipt says, if it asks for one. */
  #state(attestationId: AttestationId, { outcome, reason }: Pick<Decision, 'outcome' | 'reason'>): void {
    if (!this.#check.wantsReceipt) return;
    const { accountId } = this.#recordContext;
    this.#check.receipt = statementOf(this.#attempt, accountId, { attestationId, outcome, reason });
  }

  /** It is attested when it is resolved (contract §8). */
  #answerSuspended(pending: PendingApproval): void {
    const { nowMs } = this.#attempt;
    const approval = { ...pending, publicUrl: this.#deps.section.publicUrl };
    this.#answerWith({ attestationId: null, approval, redacted: null, nowMs }, true);
  }

  #answerFirst(first: FirstPermit): void {
    const { section, answers } = this.#deps;
    const check = this.#check;
    // Without a gate there are no PII controls.
    const pii = this.#attempt.gate?.pii ?? null;
    const isRedacted = pii?.mode === 'redact' && first.pii.length > 0;
    const redacted = isRedacted ? section.redacted(check, pii) : null;
    // This attempt may have met the limit that the first one used up.
    this.#state(first.attestationId, { outcome: 'PERMIT', reason: null });
    answers.answer(check, answerReply(renderFirstPermit(first, redacted), check.requestId), true);
  }
}

/** A settlement that was sent, and what is known of its reading. */
interface Sent extends Prepared {
  reading: ReadingFate;
}

const ignore = (): void => undefined;
const voidOfReading = (readerId: AttestationId) => ({ voids: readerId, took: [], amount_micro_usd: null });
