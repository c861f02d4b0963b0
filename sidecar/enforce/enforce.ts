import { permitCharge } from '../../shared/decision/decide.ts';
import {
  type FirstPermit,
  needsRun,
  type PendingApproval,
  Run,
  type RunAnswer,
  type RunEffect,
  type RunEvent,
} from '../../shared/decision/run.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { must, unreachable } from '../../shared/errors/assert.ts';
import type { AttestationId, RequestId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import { DurationHistogram } from '../../shared/runtime/duration-histogram.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import {
  parseCheckBody,
  parseGateChoice,
  parseRequestFacts,
  refuseOtherGate,
} from '../../shared/wire/check.ts';
import { decisionJson, renderFirstPermit } from '../../shared/wire/decision.ts';
import type { BodyHandler, Reply, RequestHead, Responder } from '../http/server.ts';
import type { LeaseHolder } from '../quota/lease-holder.ts';
import { shortWindows } from '../quota/short-windows.ts';
import type { CatchUp } from '../replica/catch-up.ts';
import type { PassportVerifier, TokenOutcome } from '../verify/verifier.ts';
import { type Answerer, type Asking, Call, type CallHead, type Made } from './call.ts';
import { type Authenticate, authenticator } from './callers.ts';
import {
  decideCall,
  findGate,
  newReaderId,
  type Prepared,
  preparePermit,
  prepareSuspend,
  recordCall,
  redactedOf,
  type SectionDeps,
} from './decide-call.ts';
import { type DecisionCount, DecisionCounts } from './decision-counts.ts';
import { type OpenCalls, openCalls } from './open-calls.ts';
import { parseBody } from './parse-body.ts';
import { errorReply, jsonReply } from './replies.ts';
import { ScanBudget } from './scan-budget.ts';
import { lookUpOf } from './settlement-of.ts';
import { eventOf, fateOf, type ReadingFate, readingFateOf } from './settlement-outcome.ts';
import { SettlementVoids } from './settlement-voids.ts';
import type { Settlements } from './settlements.ts';

export interface EnforcerDeps extends Omit<SectionDeps, 'authenticate' | 'leases' | 'scans'> {
  readonly verifier: PassportVerifier;
  readonly leases: SectionDeps['leases'] & Pick<LeaseHolder, 'ask' | 'keep' | 'giveBack' | 'passOn'>;
  readonly settlements: Pick<Settlements, 'send'>;
  /** Whether this loop may decide, or was stopped and has to catch up first. */
  readonly catchUp: Pick<CatchUp, 'mayDecide' | 'wait'>;
  /** All that one request waits for leases and settlements together. Default: limits.quotaWaitMsMax. */
  readonly quotaWaitMs?: number;
  readonly logger: Logger;
}

/**
 * The shell around `decide`: who calls, what is asked, who the passport is, what is left to take, and a
 * record before each answer (contract §5, in that order). It answers with an error of the catalogue, or with
 * a decision whose record is in the spool file or committed at the control plane; a SUSPEND with an approval
 * that is committed there.
 */
export interface Enforcer {
  /**
   * `gateId`: as it stands in the address, unchecked; null for `/enforce`, which may name a gate in its
   * request. Never throws.
   */
  handle(head: RequestHead, gateId: string | null, requestId: RequestId): Reply | BodyHandler;
  /** The part of `handle` before the body. Throws ApiError for whom it does not serve. */
  admit(head: Pick<RequestHead, 'authorization'>, gateId: string | null, requestId: RequestId): CallHead;
  /**
   * The rest of `handle`, for a check that came in another form: `body` is what `POST check` takes, parsed.
   * `token`: what is known of its passport; null: it is looked up or verified. Never throws.
   */
  ask(head: CallHead, body: unknown, responder: Responder, token?: TokenOutcome | null): void;
  /** The answer to an error, whatever it is: one that is not of the catalogue is logged and counted. */
  failure(error: unknown, requestId: RequestId): Reply;
  /**
   * Decisions that stand since the start, one row for each outcome and reason that occurred. A first PERMIT
   * that is answered again is none.
   */
  readonly decisions: Iterable<DecisionCount>;
  /** Requests answered 503 because the deadline passed or the spool was full. */
  readonly shed: number;
  /** Requests that failed by our own fault. */
  readonly internalErrors: number;
  readonly openCalls: number;
  /** From the whole body of a request to its answer, of decisions. */
  readonly durations: DurationHistogram;
  /** Settlements that were voided because their outcome was not known in time. */
  readonly voided: number;
  stop(): void;
}

export function enforcer(deps: EnforcerDeps): Enforcer {
  return new DecidingEnforcer(deps);
}

/**
 * The way of a call. Nearly all go straight down, in one turn of the event loop; one that has to ask goes on
 * as its run says (shared/decision/run.ts).
 *
 *     handle ─> begin ──known passport─> conclude ─> decide ──plain─> recordCall ──written─> answerDecision
 *                 └─> verifier ─> afterVerifying ─┘    ^  └─needs a run─> perform ─> leases, settlements, spool
 *                                                      └──── decide ────────┴──<─ report <──────────┘
 */
class DecidingEnforcer implements Enforcer, Answerer {
  shed = 0;
  internalErrors = 0;
  readonly durations = new DurationHistogram(limits.decisionBucketsMs);
  readonly #deps: EnforcerDeps;
  readonly #section: SectionDeps;
  readonly #authenticate: Authenticate;
  readonly #open: OpenCalls<Call>;
  readonly #decisions = new DecisionCounts();
  readonly #voids: SettlementVoids;

  constructor(deps: EnforcerDeps) {
    this.#deps = deps;
    this.#authenticate = authenticator(deps.state);
    this.#voids = new SettlementVoids(deps);
    this.#section = { ...deps, authenticate: this.#authenticate, scans: new ScanBudget(deps.clock) };
    this.#open = openCalls({
      clock: deps.clock,
      onLate: (call) => this.#late(call),
      durations: this.durations,
    });
  }

  get decisions(): Iterable<DecisionCount> {
    return this.#decisions.rows();
  }

  get openCalls(): number {
    return this.#open.count;
  }

  get voided(): number {
    return this.#voids.count;
  }

  stop(): void {
    this.#open.stop();
    this.#voids.stop();
  }

  handle(head: RequestHead, gateId: string | null, requestId: RequestId): Reply | BodyHandler {
    try {
      const admitted = this.admit(head, gateId, requestId);
      return (body, responder) => {
        const call = this.#begin(admitted, responder);
        try {
          this.#check(call, parseBody(body), null);
        } catch (error) {
          this.#answerError(call, error);
        }
      };
    } catch (error) {
      return this.failure(error, requestId);
    }
  }

  admit(
    { authorization }: Pick<RequestHead, 'authorization'>,
    gateId: string | null,
    requestId: RequestId,
  ): CallHead {
    if (this.#deps.state.accountId === null) {
      throw new ApiError('service_unavailable', { message: 'This sidecar has not loaded its state yet.' });
    }
    const caller = this.#authenticate(authorization, 'enforcement:check', this.#deps.clock.now());
    return { requestId, caller, gateId, authorization };
  }

  ask(head: CallHead, body: unknown, responder: Responder, token: TokenOutcome | null = null): void {
    const call = this.#begin(head, responder);
    try {
      this.#check(call, body, token);
    } catch (error) {
      this.#answerError(call, error);
    }
  }

  #begin(head: CallHead, responder: Responder): Call {
    const call = new Call(this, head, responder, this.#deps.clock.monotonic());
    this.#open.open(call);
    return call;
  }

  #check(call: Call, body: unknown, outcome: TokenOutcome | null): void {
    const { passport: token, request } = parseCheckBody(body);
    if (call.gateId === null) call.gateId = parseGateChoice(request);
    else refuseOtherGate(request, call.gateId);
    call.asked = request;
    call.request = parseRequestFacts(request);
    // Before any cryptography, and again when it decides.
    if (call.gateId !== null) findGate(this.#deps.state, call.gateId, call.caller);
    const passport = this.#deps.verifier.known(token);
    if (passport !== null) this.#conclude(call, { kind: 'verified', passport });
    else if (outcome !== null) this.#conclude(call, outcome);
    else this.#deps.verifier.verify(token, (verified) => this.#afterVerifying(call, verified));
  }

  /** Maybe in a later turn: the client may have gone, and whatever was looked up before has aged. */
  #afterVerifying(call: Call, outcome: TokenOutcome): void {
    if (!this.#isWanted(call)) return;
    try {
      this.#conclude(call, outcome);
    } catch (error) {
      this.#answerError(call, error);
    }
  }

  #conclude(call: Call, outcome: TokenOutcome): void {
    if (outcome.kind === 'overloaded') throw new ApiError('overloaded');
    if (outcome.kind === 'unavailable') {
      throw new ApiError('service_unavailable', {
        message: 'Passports cannot be verified now. Try again shortly.',
      });
    }
    call.token = outcome;
    this.#decide(call);
  }

  /** One pass, and what it leaves to do. */
  #decide(call: Call): void {
    const { spool, catchUp } = this.#deps;
    if (spool.isFull) throw new ApiError('overloaded');
    if (!catchUp.mayDecide) {
      if (!catchUp.wait(() => this.#decideAgain(call))) throw new ApiError('overloaded');
      return;
    }
    const made = decideCall(this.#section, call);
    if (made === null) setImmediate(() => this.#decideAgain(call));
    else if (call.asking === null && !needsRun(made.decision, made.request, made.mayBePending))
      recordCall(this.#section, call, made);
    else {
      const { run } = this.#askingOf(call, made);
      this.#perform(call, run.decided(made.decision, made.mayBePending));
    }
  }

  /**
   * After a wait: a client that went away meanwhile leaves nothing behind; nothing is taken for it, and
   * nothing recorded.
   */
  #decideAgain(call: Call): void {
    if (!this.#isWanted(call)) return;
    try {
      this.#decide(call);
    } catch (error) {
      this.#answerError(call, error);
    }
  }

  #askingOf(call: Call, { request }: Made): Asking {
    const { clock, quotaWaitMs = limits.quotaWaitMsMax } = this.#deps;
    const untilMs = (clock.monotonic() + quotaWaitMs) as MonotonicMillis;
    call.asking ??= { run: new Run(request), untilMs, refusal: null, voidSettlement: null, readerIds: [] };
    return call.asking;
  }

  /** Does what the run says, and reports what came of it. */
  #perform(call: Call, effect: RunEffect): void {
    switch (effect.kind) {
      case 'decide':
        this.#decideAgain(call);
        return;
      case 'ask_leases':
        this.#askLeases(call);
        return;
      case 'look_up':
        this.#lookUp(call);
        return;
      case 'settle_permit':
        this.#settle(call, preparePermit(this.#section, call, madeOf(call)));
        return;
      case 'settle_suspend':
        this.#settle(call, prepareSuspend(this.#section, call, madeOf(call)));
        return;
      case 'record': {
        const made = { ...madeOf(call), decision: effect.decision };
        call.made = effect.decision.isRedacted ? made : { ...made, redacted: null };
        recordCall(this.#section, call, call.made);
        return;
      }
      case 'void':
        must(askingOf(call).voidSettlement, 'a run voids what it has settled')();
        return;
      case 'answer':
        this.#answer(call, effect.answer);
        return;
      default:
        unreachable(effect);
    }
  }

  #report(call: Call, event: RunEvent): void {
    try {
      this.#perform(call, must(call.asking, 'only a run gets events').run.on(event));
    } catch (error) {
      this.#answerError(call, error);
    }
  }

  /**
   * Everything that it lacks at once: money and requests. One that waits for a person needs a request to be
   * left, and takes none.
   */
  #askLeases(call: Call): void {
    const { view, need } = needOf(madeOf(call));
    const asking = askingOf(call);
    this.#deps.leases.ask(view, need, asking.untilMs, (outcome) => {
      if (!this.#isWanted(call)) return;
      if (outcome.kind === 'refused') asking.refusal = outcome.refusal;
      this.#report(call, outcome);
    });
  }

  #lookUp(call: Call): void {
    const { untilMs, refusal } = askingOf(call);
    const made = madeOf(call);
    const readerId = newReaderId(this.#deps, made);
    const short = refusal === null ? [] : shortWindows(needOf(made), refusal);
    const lookUp = lookUpOf(made, { readerId, short });
    this.#deps.settlements.send(lookUp, this.#deps.leases.holder, untilMs, (outcome, isCertain) => {
      const reading = readingFateOf(outcome, isCertain);
      if (reading === 'read') askingOf(call).readerIds.push(readerId);
      else if (reading === 'void') this.#voids.void(voidOfReading(readerId), ignore);
      if (this.#isWanted(call)) this.#report(call, eventOf(outcome, 'looked_up'));
    });
  }

  /**
   * A call is over, and its client has not got what it has read: what was settled for others is theirs alone
   * again.
   */
  #endReadings(call: Call, isAnsweredWith: boolean): void {
    if (call.asking === null) return;
    const { readerIds } = call.asking;
    const unused = readerIds.splice(0, readerIds.length - (isAnsweredWith ? 1 : 0));
    for (const readerId of unused) this.#voids.void(voidOfReading(readerId), ignore);
  }

  #isWanted(call: Call): boolean {
    if (this.#open.isWanted(call)) return true;
    this.#endReadings(call, false);
    return false;
  }

  /** Its deadline has passed; it is answered 503 now. */
  #late(call: Call): void {
    this.shed++;
    this.#endReadings(call, false);
  }

  /** `isRead`: the reply is what the call has read. */
  #reply(call: Call, reply: Reply, isRead = false): void {
    const isTold = this.#open.answer(call, reply);
    this.#endReadings(call, isRead && isTold);
  }

  /** What was reserved ends with the outcome. A settlement is voided where nobody can be answered with it. */
  #settle(call: Call, { settlement, reservation, readerId, voids }: Prepared): void {
    const { leases, settlements } = this.#deps;
    const asking = askingOf(call);
    let reading: ReadingFate = 'none';
    const voidIt = (onWritten: () => void) => {
      leases.passOn(reservation);
      this.#voids.void(reading === 'void' ? { ...voids, reader_id: readerId } : voids, onWritten);
    };
    asking.voidSettlement = () => voidIt(() => this.#report(call, { kind: 'written' }));
    settlements.send(settlement, leases.holder, asking.untilMs, (outcome, isCertain) => {
      reading = readingFateOf(outcome, isCertain);
      if (reading === 'read') askingOf(call).readerIds.push(readerId);
      const isWanted = this.#isWanted(call);
      const fate = fateOf(outcome, { isCertain, isWanted });
      switch (fate) {
        case 'undo':
          this.#report(call, { kind: 'late' });
          return;
        case 'keep':
          leases.keep(reservation);
          break;
        case 'pass_on':
          leases.passOn(reservation);
          break;
        case 'give_back':
          leases.giveBack(reservation);
          break;
        case 'void':
          voidIt(ignore);
          break;
        default:
          unreachable(fate);
      }
      if (isWanted) this.#report(call, eventOf(outcome, 'settled'));
    });
  }

  #answer(call: Call, answer: RunAnswer): void {
    switch (answer.kind) {
      case 'decision':
        this.answerDecision(call);
        return;
      case 'suspended':
        this.#answerSuspended(call, answer.approval);
        return;
      case 'replay':
        this.#answerFirst(call, answer.first);
        return;
      case 'error':
        throw new ApiError(answer.code);
      default:
        unreachable(answer);
    }
  }

  answerDecision(call: Call): void {
    const made = madeOf(call);
    this.#decisions.count(made.decision);
    this.#reply(call, jsonReply(200, decisionJson(made.decision, made), call.requestId));
  }

  answerLost(call: Call): void {
    this.#reply(call, this.failure(new ApiError('overloaded'), call.requestId));
  }

  /** It is attested when somebody resolves it (contract §8). */
  #answerSuspended(call: Call, approval: PendingApproval): void {
    const { decision, nowMs } = madeOf(call);
    this.#decisions.count(decision);
    const answered = { attestationId: null, approval, redacted: null, nowMs };
    this.#reply(call, jsonReply(200, decisionJson(decision, answered), call.requestId), true);
  }

  #answerFirst(call: Call, first: FirstPermit): void {
    // Without a gate there are no PII controls.
    const pii = madeOf(call).gate?.pii ?? null;
    const redacted =
      pii?.mode === 'redact' && first.pii.length > 0
        ? this.#section.scans.spend(() => redactedOf(call, pii))
        : null;
    const answer = JSON.stringify(renderFirstPermit(first, redacted));
    this.#reply(call, jsonReply(200, answer, call.requestId), true);
  }

  #answerError(call: Call, error: unknown): void {
    this.#reply(call, this.failure(error, call.requestId));
  }

  failure(error: unknown, requestId: RequestId): Reply {
    if (error instanceof ApiError) {
      if (error.code === 'overloaded') this.shed++;
      return errorReply(error, requestId);
    }
    this.internalErrors++;
    this.#deps.logger.error({ err: error, request_id: requestId }, 'a request failed with an internal error');
    return errorReply(new ApiError('internal_error'), requestId);
  }
}

const madeOf = (call: Call): Made => must(call.made, 'a call that is answered or waits was decided');
const needOf = ({ decision, view, request }: Made) => ({
  view: must(view, 'only a passport lacks units'),
  need: permitCharge(request, decision.amountMicroUsd),
});
const askingOf = (call: Call): Asking => must(call.asking, 'a call that waits has a run');
const ignore = (): void => undefined;
const voidOfReading = (readerId: AttestationId) => ({ voids: readerId, took: [], amount_micro_usd: null });
