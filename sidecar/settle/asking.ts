import type { RequestWriter } from '../../shared/crypto/request-writer.ts';
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
import type { MonotonicMillis, UnixMillis } from '../../shared/model/time.ts';
import { DurationHistogram } from '../../shared/runtime/duration-histogram.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { RetryWaits } from '../../shared/runtime/retry-waits.ts';
import {
  parseCheckBody,
  parseGateChoice,
  parseRequestFacts,
  refuseOtherGate,
} from '../../shared/wire/check.ts';
import { renderFirstPermit } from '../../shared/wire/decision.ts';
import type { BodyHandler, Reply, RequestHead } from '../http/server.ts';
import type { LeaseHolder } from '../quota/lease-holder.ts';
import { shortWindows } from '../quota/short-windows.ts';
import type { CatchUp } from '../replica/catch-up.ts';
import type { PassportVerifier, TokenOutcome } from '../verify/verifier.ts';
import { type Authenticate, authenticator, type Caller, refuseSuspended } from '../decide/callers.ts';
import {
  decideRequest,
  findGate,
  newReaderId,
  type Prepared,
  preparePermit,
  prepareSuspend,
  recordDecision,
  redactedOf,
  type SectionDeps,
} from '../decide/section.ts';
import { type DecisionCount, DecisionCounts } from '../decide/decision-counts.ts';
import { decideLimits } from '../decide/limits.ts';
import { settleLimits } from './limits.ts';
import {
  type Answerer,
  type Attempt,
  OpenRequest,
  type OpenRequestHead,
  type Waiting,
} from '../decide/check.ts';
import { type OpenRequests, trackOpenRequests } from '../decide/open-checks.ts';
import { type CanonicalCheck, readCheck } from '../intake/read-check.ts';
import { PlainPermits } from '../decide/plain-permits.ts';
import { refuseWhereDisowned } from '../decide/refuse-where-disowned.ts';
import {
  answerReply,
  type CheckReply,
  type CheckResponder,
  DecisionReply,
  type ErrorReply,
  errorReply,
} from '../decide/replies.ts';
import { ScanBudget } from '../decide/scan-budget.ts';
import { lookUpOf } from './settlement-of.ts';
import { eventOf, fateOf, hasNotArrived, type ReadingFate, readingFateOf } from './settlement-outcome.ts';
import { SettlementVoids } from './settlement-voids.ts';
import type { Settlements } from './settlements.ts';

export interface EnforcerDeps extends Omit<SectionDeps, 'authenticate' | 'leases' | 'scans'> {
  readonly verifier: PassportVerifier;
  readonly leases: SectionDeps['leases'] & Pick<LeaseHolder, 'ask' | 'keep' | 'giveBack' | 'passOn'>;
  readonly settlements: Pick<Settlements, 'send'>;
  /** Of everybody who reads checks on this loop. */
  readonly writer: RequestWriter;
  /** See refuseWhereDisowned. Asked in each section that decides: it may change while a request waits. */
  readonly mustNotServe: () => string | null;
  /** Whether this loop may decide, or was stopped and has to catch up first. */
  readonly catchUp: Pick<CatchUp, 'mayDecideAt' | 'wait'>;
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
   * `gateId`: as in the URL, unchecked; null for `/enforce`, which may have a gate in its
   * request. `nowMs`: as in `admit`. Never throws.
   */
  handle(
    head: RequestHead,
    gateId: string | null,
    requestId: RequestId,
    nowMs?: UnixMillis,
  ): Reply | BodyHandler;
  /**
   * The part of `handle` before the body. `nowMs`: where its caller has just read the clock. Throws ApiError
   * for whom it does not serve.
   */
  admit(
    head: Pick<RequestHead, 'authorization'>,
    gateId: string | null,
    requestId: RequestId,
    nowMs?: UnixMillis,
  ): OpenRequestHead & { readonly caller: Caller };
  /**
   * As `admit`, for a peer that is trusted without a key (contract §15), and returns as whom it asks: the
   * gate may be of either mode, and without a gate the mode is `live`.
   */
  admitPeer(gateId: string | null): OpenRequestHead['caller'];
  /**
   * The rest of `handle`, for a check that came in another form: `body` is what `POST check` takes, parsed.
   * `token`: what is known of its passport; null: it is looked up or verified. Never throws.
   */
  ask(head: OpenRequestHead, body: unknown, responder: CheckResponder, token?: TokenOutcome | null): void;
  /**
   * The first half of `ask`, for a check that is decided in a later turn: its deadline runs from
   * `arrivedAtMs` on, and may answer it before `proceed` is called.
   */
  begin(head: OpenRequestHead, responder: CheckResponder, arrivedAtMs: MonotonicMillis): OpenRequest;
  /** The other half, for a request that is not answered yet. Never throws. */
  proceed(open: OpenRequest, body: unknown, token: TokenOutcome | null): void;
  /**
   * The same for a check that its caller has read and found to be one. `nowMs`: where the clock was read in
   * this very call of the loop.
   */
  proceedRead(
    open: OpenRequest,
    check: CanonicalCheck,
    token?: TokenOutcome | null,
    nowMs?: MonotonicMillis,
  ): void;
  /** The answer to an error, whatever it is: one that is not of the catalogue is logged and counted. */
  failure(error: unknown, requestId: RequestId): ErrorReply;
  /** One more was answered `overloaded`, with an answer that `failure` has made for another one. */
  countShed(): void;
  /**
   * Decisions made since the start, one row for each outcome and reason that occurred. A first PERMIT
   * that is answered again is not counted.
   */
  readonly decisions: Iterable<DecisionCount>;
  /**
   * Requests answered 503 `overloaded`, because the deadline passed or the spool was full, for example. One
   * whose client has left is not answered.
   */
  readonly shed: number;
  /** Requests that failed by our own fault. */
  readonly internalErrors: number;
  readonly openRequests: number;
  /** From the whole body of a request to its answer, of decisions. */
  readonly durations: DurationHistogram;
  /** Voids of settlements and readings that were written. */
  readonly voided: number;
  stop(): void;
}

export function enforcer(deps: EnforcerDeps): Enforcer {
  return new DecidingEnforcer(deps);
}

/**
 * The path of a request. Nearly all go straight down, in one turn of the event loop; one that has to wait
 * goes on as its run says (shared/decision/run.ts).
 *
 *     handle ─> begin ──known passport─> conclude ─> decide ──plain─> recordDecision ──written─> answerDecision
 *                 └─> verifier ─> afterVerifying ─┘    ^  └─needs a run─> perform ─> leases, settlements, spool
 *                                                      └──── decide ────────┴──<─ report <──────────┘
 */
class DecidingEnforcer implements Enforcer, Answerer {
  shed = 0;
  internalErrors = 0;
  readonly durations = new DurationHistogram(decideLimits.decisionBucketsMs);
  readonly #deps: EnforcerDeps;
  readonly #section: SectionDeps;
  readonly #authenticate: Authenticate;
  readonly #open: OpenRequests<OpenRequest>;
  readonly #decisions = new DecisionCounts();
  readonly #voids: SettlementVoids;
  readonly #retryWaits: RetryWaits;
  readonly #plainPermits: PlainPermits;
  readonly #known = (token: string) => this.#deps.verifier.known(token);

  constructor(deps: EnforcerDeps) {
    this.#deps = deps;
    this.#authenticate = authenticator(deps.state);
    this.#voids = new SettlementVoids(deps);
    this.#retryWaits = new RetryWaits(deps, settleLimits.retries);
    this.#section = { ...deps, authenticate: this.#authenticate, scans: new ScanBudget(deps.clock) };
    this.#plainPermits = new PlainPermits(this.#section);
    this.#open = trackOpenRequests({
      clock: deps.clock,
      onLate: (open) => this.#late(open),
      durations: this.durations,
    });
  }

  get decisions(): Iterable<DecisionCount> {
    return this.#decisions.rows();
  }

  get openRequests(): number {
    return this.#open.count;
  }

  get voided(): number {
    return this.#voids.count;
  }

  stop(): void {
    this.#open.stop();
    this.#retryWaits.stop();
    this.#voids.stop();
  }

  handle(
    head: RequestHead,
    gateId: string | null,
    requestId: RequestId,
    nowMs?: UnixMillis,
  ): Reply | BodyHandler {
    try {
      const admitted = this.admit(head, gateId, requestId, nowMs);
      return (body, responder) => {
        const open = this.begin(admitted, responder);
        try {
          const check = readCheck(body, this.#deps.writer, this.#known);
          const { passport } = check;
          // What is decided before the handler returns is decided at the moment at which the body came.
          const token: TokenOutcome | null = passport === null ? null : { kind: 'verified', passport };
          this.#check(open, check, token, open.openedAtMs);
        } catch (error) {
          this.#answerError(open, error);
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
    nowMs: UnixMillis = this.#deps.clock.now(),
  ): OpenRequestHead & { readonly caller: Caller } {
    this.#refuseWithoutState();
    const caller = this.#authenticate(authorization, 'enforcement:check', nowMs);
    return { requestId, caller, gateId, authorization };
  }

  admitPeer(gateId: string | null): OpenRequestHead['caller'] {
    const { state } = this.#deps;
    this.#refuseWithoutState();
    refuseSuspended(state);
    if (gateId === null) return peers.live;
    const gate = state.gate(gateId);
    if (gate === null) throw new ApiError('gate_not_found');
    return peers[gate.mode];
  }

  #refuseWithoutState(): void {
    if (this.#deps.state.accountId !== null) return;
    throw new ApiError('service_unavailable', { message: 'This sidecar has not loaded its state yet.' });
  }

  ask(
    head: OpenRequestHead,
    body: unknown,
    responder: CheckResponder,
    token: TokenOutcome | null = null,
  ): void {
    this.proceed(this.begin(head, responder), body, token);
  }

  begin(
    head: OpenRequestHead,
    responder: CheckResponder,
    arrivedAtMs: MonotonicMillis = this.#deps.clock.monotonic(),
  ): OpenRequest {
    const open = new OpenRequest(this, head, responder, arrivedAtMs);
    this.#open.open(open);
    return open;
  }

  proceed(open: OpenRequest, body: unknown, token: TokenOutcome | null): void {
    try {
      const call = parseCheckBody(body);
      const canonical = this.#deps.writer.write(call.request, { depth: 1, isPlain: false });
      this.#check(open, { call, canonical }, token);
    } catch (error) {
      this.#answerError(open, error);
    }
  }

  proceedRead(
    open: OpenRequest,
    check: CanonicalCheck,
    token: TokenOutcome | null = null,
    nowMs?: MonotonicMillis,
  ): void {
    try {
      this.#check(open, check, token, nowMs);
    } catch (error) {
      this.#answerError(open, error);
    }
  }

  /** `nowMs`: as in `#decide`. */
  #check(
    open: OpenRequest,
    { call, canonical }: CanonicalCheck,
    outcome: TokenOutcome | null,
    nowMs?: MonotonicMillis,
  ): void {
    const { passport: token, request } = call;
    if (open.gateId === null) open.gateId = parseGateChoice(request);
    else refuseOtherGate(request, open.gateId);
    open.asked = request;
    open.request = parseRequestFacts(request, 'request', canonical);
    // Before any cryptography, and again when it decides.
    if (open.gateId !== null) findGate(this.#deps.state, open.gateId, open.caller);
    if (outcome !== null) {
      this.#conclude(open, outcome, nowMs);
      return;
    }
    const passport = this.#deps.verifier.known(token);
    if (passport !== null) this.#conclude(open, { kind: 'verified', passport }, nowMs);
    else this.#deps.verifier.verify(token, (verified) => this.#afterVerifying(open, verified));
  }

  /** Maybe in a later turn: the client may have gone, and whatever was looked up before has aged. */
  #afterVerifying(open: OpenRequest, outcome: TokenOutcome): void {
    if (!this.#isWanted(open)) return;
    try {
      this.#conclude(open, outcome);
    } catch (error) {
      this.#answerError(open, error);
    }
  }

  #conclude(open: OpenRequest, outcome: TokenOutcome, nowMs?: MonotonicMillis): void {
    if (outcome.kind === 'overloaded') throw new ApiError('overloaded');
    if (outcome.kind === 'unavailable') {
      throw new ApiError('service_unavailable', {
        message: 'Passports cannot be verified now. Try again shortly.',
      });
    }
    open.token = outcome;
    this.#decide(open, nowMs);
  }

  /** One pass, and what it leaves to do. `nowMs`: where the clock was read in this very call of the loop. */
  #decide(open: OpenRequest, nowMs: MonotonicMillis = this.#deps.clock.monotonic()): void {
    const { mustNotServe, spool, catchUp } = this.#deps;
    refuseWhereDisowned(mustNotServe());
    if (spool.isFull) throw new ApiError('overloaded');
    if (!catchUp.mayDecideAt(nowMs)) {
      if (!catchUp.wait(() => this.#decideAgain(open))) throw new ApiError('overloaded');
      return;
    }
    if (open.waiting === null && this.#isPermitted(open, nowMs)) return;
    const attempt = decideRequest(this.#section, open, nowMs);
    if (attempt === null) setImmediate(() => this.#decideAgain(open));
    else if (open.waiting === null && !needsRun(attempt.decision, attempt.request, attempt.mayBePending))
      recordDecision(this.#section, open, attempt);
    else {
      const { run } = this.#waitOf(open, attempt);
      this.#perform(open, run.decided(attempt.decision, attempt.mayBePending));
    }
  }

  /** Decided on the short way, taken and recorded; it waits for its record alone. */
  #isPermitted(open: OpenRequest, nowMs: MonotonicMillis): boolean {
    const { token, request } = open;
    if (token?.kind !== 'verified' || request === null) return false;
    return this.#plainPermits.permit(open, request, token.passport, nowMs);
  }

  /**
   * After a wait: a client that went away meanwhile leaves nothing behind; nothing is taken for it, and
   * nothing recorded.
   */
  #decideAgain(open: OpenRequest): void {
    if (!this.#isWanted(open)) return;
    try {
      this.#decide(open);
    } catch (error) {
      this.#answerError(open, error);
    }
  }

  #waitOf(open: OpenRequest, { request }: Attempt): Waiting {
    const { clock, quotaWaitMs = limits.quotaWaitMsMax } = this.#deps;
    const untilMs = (clock.monotonic() + quotaWaitMs) as MonotonicMillis;
    open.waiting ??= {
      run: new Run(request),
      untilMs,
      waits: 0,
      shortage: null,
      voidSettlement: null,
      readings: [],
    };
    return open.waiting;
  }

  /** Does what the run says, and reports what came of it. */
  #perform(open: OpenRequest, effect: RunEffect): void {
    switch (effect.kind) {
      case 'decide':
        this.#decideAgain(open);
        return;
      case 'ask_leases':
        this.#askLeases(open);
        return;
      case 'look_up':
        this.#lookUp(open);
        return;
      case 'wait':
        this.#wait(open);
        return;
      case 'settle_permit':
        this.#settle(open, preparePermit(this.#section, open, attemptOf(open)));
        return;
      case 'settle_suspend':
        this.#settle(open, prepareSuspend(this.#section, open, attemptOf(open)));
        return;
      case 'record': {
        // It may have filled up, or broken, since the request was decided.
        if (this.#deps.spool.isFull) throw new ApiError('overloaded');
        const attempt = { ...attemptOf(open), decision: effect.decision };
        open.attempt = effect.decision.isRedacted ? attempt : { ...attempt, redacted: null };
        recordDecision(this.#section, open, open.attempt);
        return;
      }
      case 'void':
        must(waitingOf(open).voidSettlement, 'a run voids what it has settled')();
        return;
      case 'answer':
        this.#answer(open, effect.answer);
        return;
      default:
        unreachable(effect);
    }
  }

  #report(open: OpenRequest, event: RunEvent): void {
    try {
      this.#perform(open, must(open.waiting, 'only a run gets events').run.on(event));
    } catch (error) {
      this.#answerError(open, error);
    }
  }

  /**
   * Everything that it lacks at once: money and requests. One that waits for a person needs a request to be
   * left, and takes none.
   */
  #askLeases(open: OpenRequest): void {
    const { view, need } = needOf(attemptOf(open));
    const waiting = waitingOf(open);
    this.#deps.leases.ask(view, need, waiting.untilMs, (outcome) => {
      if (!this.#isWanted(open)) return;
      if (outcome.kind === 'refused') waiting.shortage = outcome.shortage;
      this.#report(open, outcome);
    });
  }

  /** Units may be there again when it is over: what the ledger has refused is asked for anew. */
  #wait(open: OpenRequest): void {
    const waiting = waitingOf(open);
    const { waits, untilMs } = waiting;
    waiting.waits++;
    const { facts } = attemptOf(open);
    const owner = facts.kind === 'verified' ? facts.passport.passportId : '';
    this.#retryWaits.wait({ owner, waits, untilMs }, (kind) => {
      if (!this.#isWanted(open)) return;
      waiting.shortage = null;
      this.#report(open, { kind });
    });
  }

  #lookUp(open: OpenRequest): void {
    const { untilMs, shortage } = waitingOf(open);
    const attempt = attemptOf(open);
    const readerId = newReaderId(this.#deps, attempt);
    const short = shortage === null ? [] : shortWindows(needOf(attempt), shortage);
    const lookUp = lookUpOf(attempt, { readerId, short });
    this.#deps.settlements.send(lookUp, this.#deps.leases.holder, untilMs, (outcome, isCertain) => {
      const reading = readingFateOf(outcome, isCertain);
      if (reading === 'read') waitingOf(open).readings.push(voidOfReading(readerId));
      else if (reading === 'void') this.#voids.void(voidOfReading(readerId), ignore);
      if (this.#isWanted(open)) this.#report(open, eventOf(outcome, 'looked_up'));
    });
  }

  /**
   * A request is over, and its client has not got what it has read: what was settled for others is theirs
   * alone again.
   */
  #endReadings(open: OpenRequest, isAnsweredWith: boolean): void {
    if (open.waiting === null) return;
    const { readings } = open.waiting;
    const unused = readings.splice(0, readings.length - (isAnsweredWith ? 1 : 0));
    for (const reading of unused) this.#voids.void(reading, ignore);
  }

  #isWanted(open: OpenRequest): boolean {
    if (this.#open.isWanted(open)) return true;
    this.#endReadings(open, false);
    return false;
  }

  /** Its deadline has passed; it is answered 503 now, where its client still waits. */
  #late(open: OpenRequest): void {
    if (!open.responder.isAborted) this.shed++;
    this.#endReadings(open, false);
  }

  /** `isRead`: the reply is what the request has read. */
  #reply(open: OpenRequest, reply: CheckReply, isRead = false): void {
    const isTold = this.#open.answer(open, reply);
    this.#endReadings(open, isRead && isTold);
  }

  /**
   * What was reserved ends with the outcome. A settlement is voided if no request can be answered with it.
   */
  #settle(open: OpenRequest, { settlement, reservation, readerId, voids }: Prepared): void {
    const { leases, settlements } = this.#deps;
    const waiting = waitingOf(open);
    const isPermit = settlement.kind === 'permit';
    let reading: ReadingFate = 'none';
    const voidIt = (onWritten: () => void) => {
      leases.passOn(reservation);
      this.#voids.void(reading === 'void' ? { ...voids, reader_id: readerId } : voids, onWritten);
    };
    waiting.voidSettlement = () => voidIt(() => this.#report(open, { kind: 'written' }));
    settlements.send(settlement, leases.holder, waiting.untilMs, (outcome) => {
      reading = readingFateOf(outcome, hasNotArrived(outcome));
      if (outcome.kind === 'replayed' && isPermit)
        waiting.readings.push({ ...voids, took: [], reader_id: readerId });
      else if (reading === 'read') waiting.readings.push(voidOfReading(readerId));
      const isWanted = this.#isWanted(open);
      const goOn = () => {
        if (this.#isWanted(open)) this.#report(open, eventOf(outcome, 'settled'));
      };
      const fate = fateOf(outcome, { isPermit, isWanted });
      switch (fate) {
        case 'undo':
          this.#report(open, { kind: 'late' });
          return;
        case 'void':
          voidIt(goOn);
          return;
        case 'keep':
          leases.keep(reservation);
          break;
        case 'pass_on':
          leases.passOn(reservation);
          break;
        case 'give_back':
          leases.giveBack(reservation);
          if (reading === 'void') this.#voids.void(voidOfReading(readerId), ignore);
          break;
        default:
          unreachable(fate);
      }
      goOn();
    });
  }

  #answer(open: OpenRequest, answer: RunAnswer): void {
    switch (answer.kind) {
      case 'decision':
        this.answerDecision(open);
        return;
      case 'suspended':
        this.#answerSuspended(open, answer.approval);
        return;
      case 'replay':
        this.#answerFirst(open, answer.first);
        return;
      case 'error':
        throw new ApiError(answer.code);
      default:
        unreachable(answer);
    }
  }

  answerDecision(open: OpenRequest): void {
    const { permit } = open;
    const reply = permit ?? replyOf(open);
    this.#decisions.count(reply.decision);
    this.#reply(open, reply);
  }

  answerLost(open: OpenRequest): void {
    if (this.#isWanted(open)) this.#answerError(open, new ApiError('overloaded'));
  }

  /** It is attested when it is resolved (contract §8). */
  #answerSuspended(open: OpenRequest, approval: PendingApproval): void {
    const { decision, nowMs } = attemptOf(open);
    this.#decisions.count(decision);
    const answered = { attestationId: null, approval, redacted: null, nowMs };
    this.#reply(open, new DecisionReply(decision, answered, open), true);
  }

  #answerFirst(open: OpenRequest, first: FirstPermit): void {
    // Without a gate there are no PII controls.
    const pii = attemptOf(open).gate?.pii ?? null;
    const redacted =
      pii?.mode === 'redact' && first.pii.length > 0
        ? this.#section.scans.spend(() => redactedOf(open, pii))
        : null;
    this.#reply(open, answerReply(renderFirstPermit(first, redacted), open.requestId), true);
  }

  #answerError(open: OpenRequest, error: unknown): void {
    this.#reply(open, this.failure(error, open.requestId));
  }

  countShed(): void {
    this.shed++;
  }

  failure(error: unknown, requestId: RequestId): ErrorReply {
    if (error instanceof ApiError) {
      if (error.code === 'overloaded') this.shed++;
      return errorReply(error, requestId);
    }
    this.internalErrors++;
    this.#deps.logger.error({ err: error, request_id: requestId }, 'a request failed with an internal error');
    return errorReply(new ApiError('internal_error'), requestId);
  }
}

const peers = { live: { mode: 'live' }, test: { mode: 'test' } } as const;

const attemptOf = (open: OpenRequest): Attempt =>
  must(open.attempt, 'a request that is answered or waits was decided');
const replyOf = (open: OpenRequest): DecisionReply => {
  const attempt = attemptOf(open);
  return new DecisionReply(attempt.decision, attempt, open);
};
const needOf = ({ decision, view, request }: Attempt) => ({
  view: must(view, 'only a passport lacks units'),
  need: permitCharge(request, decision.amountMicroUsd),
});
const waitingOf = (open: OpenRequest): Waiting => must(open.waiting, 'a open that waits has a run');
const ignore = (): void => undefined;
const voidOfReading = (readerId: AttestationId) => ({ voids: readerId, took: [], amount_micro_usd: null });
