import { isUtf8 } from 'node:buffer';
import { permitCharge } from '../../shared/decision/decide.ts';
import type { RequestFacts } from '../../shared/decision/facts.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { RequestId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import { DurationHistogram } from '../../shared/runtime/duration-histogram.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { parseCheckBody, parseGateChoice, parseRequestFacts } from '../../shared/wire/check.ts';
import { decisionJson, renderFirstPermit } from '../../shared/wire/decision.ts';
import { parseJsonText } from '../../shared/wire/json.ts';
import type { FirstPermit } from '../../shared/wire/settlement.ts';
import type { BodyHandler, Reply, RequestHead } from '../http/server.ts';
import type { LeaseHolder } from '../leases/lease-holder.ts';
import type { AskOutcome } from '../leases/waiters.ts';
import type { CatchUp } from '../replica/catch-up.ts';
import type { PassportVerifier, TokenOutcome } from '../verify/verifier.ts';
import { type Answerer, Call, type Made } from './call.ts';
import { type Authenticate, authenticator } from './callers.ts';
import { decideCall, findGate, redactedOf, type SectionDeps } from './decide-call.ts';
import { type DecisionCount, DecisionCounts } from './decision-counts.ts';
import { type OpenCalls, openCalls } from './open-calls.ts';
import { errorReply, jsonReply } from './replies.ts';
import { ScanBudget } from './scan-budget.ts';
import type { SettlementOutcome, Settlements } from './settle.ts';
import { lookUpOf } from './settlement-of.ts';
import { learnOfLeases, learnOfSettlement, Waiting } from './waiting.ts';

export interface EnforcerDeps extends Omit<SectionDeps, 'authenticate' | 'leases' | 'scans'> {
  readonly verifier: PassportVerifier;
  readonly leases: SectionDeps['leases'] & Pick<LeaseHolder, 'ask'>;
  readonly settlements: Pick<Settlements, 'settle'>;
  /** Whether this loop may decide, or was stopped and has to catch up first. */
  readonly catchUp: Pick<CatchUp, 'mayDecide' | 'wait'>;
  /** All that one request waits for leases and settlements together. Default: limits.quotaWaitMsMax. */
  readonly quotaWaitMs?: number;
  readonly logger: Logger;
}

/**
 * The shell around `decide`: who calls, what is asked, who the passport is, what is left to take, and a record before each answer (decisions
 * §5, in that order). It answers with an error of the catalogue, or with a decision whose record is in the spool file or committed at the
 * control plane; a SUSPEND with an approval that is committed there.
 */
export interface Enforcer {
  /** `gateId`: as it stands in the address, unchecked; null for `/enforce`, which may name a gate in its request. Never throws. */
  handle(head: RequestHead, gateId: string | null, requestId: RequestId): Reply | BodyHandler;
  /** Decisions that stand since the start, one row for each outcome and reason that occurred. A first PERMIT that is answered again is none. */
  readonly decisions: Iterable<DecisionCount>;
  /** Requests answered 503 because the deadline passed or the spool was full. */
  readonly shed: number;
  /** Requests that failed by our own fault. */
  readonly internalErrors: number;
  readonly openCalls: number;
  /** From the whole body of a request to its answer, of decisions. */
  readonly durations: DurationHistogram;
  stop(): void;
}

export function enforcer(deps: EnforcerDeps): Enforcer {
  return new DecidingEnforcer(deps);
}

/**
 * The way of a call. Nearly all go straight down, in one turn of the event loop; who has to ask somebody decides anew when he has heard.
 *
 *     handle ─> begin ──────known passport─────> conclude ─> decideCall ─> recorded ─> answerDecision
 *                 └─> verifier ─> afterVerifying ─┘ ↑ ↑           ├─> leases ─> heardLeases ───┐
 *                                                   │ └───────────│────────────────────────────┘
 *                                                   │             ├─> look_up, settle ─> heardSettlement ─> answerDecision, answerSuspended
 *                                                   └─────────────│───────────────────────────┘
 *                                                                 └─> answer ─> answerKnown
 */
class DecidingEnforcer implements Enforcer, Answerer {
  shed = 0;
  internalErrors = 0;
  readonly durations = new DurationHistogram(limits.decisionBucketsMs);
  readonly #deps: EnforcerDeps;
  readonly #section: SectionDeps;
  readonly #authenticate: Authenticate;
  readonly #open: OpenCalls;
  readonly #decisions = new DecisionCounts();

  constructor(deps: EnforcerDeps) {
    this.#deps = deps;
    this.#authenticate = authenticator(deps.state);
    this.#section = { ...deps, authenticate: this.#authenticate, scans: new ScanBudget(deps.clock) };
    this.#open = openCalls({ clock: deps.clock, onLate: () => this.shed++, durations: this.durations });
  }

  get decisions(): Iterable<DecisionCount> {
    return this.#decisions.rows();
  }

  get openCalls(): number {
    return this.#open.count;
  }

  stop(): void {
    this.#open.stop();
  }

  handle(head: RequestHead, gateId: string | null, requestId: RequestId): Reply | BodyHandler {
    try {
      if (this.#deps.state.accountId === null) {
        throw new ApiError('service_unavailable', { message: 'This sidecar has not loaded its state yet.' });
      }
      const caller = this.#authenticate(head.authorization, 'enforcement:check', this.#deps.clock.now());
      const open = { requestId, caller, gateId, authorization: head.authorization };
      return (body, responder) =>
        this.#begin(new Call(this, open, responder, this.#deps.clock.monotonic()), body);
    } catch (error) {
      return this.#errorReply(error, requestId);
    }
  }

  #begin(call: Call, body: Buffer): void {
    this.#open.open(call);
    try {
      const { passport: token, request } = parseCheckBody(parseBody(body));
      if (call.gateId === null) call.gateId = parseGateChoice(request);
      call.asked = request;
      call.request = parseRequestFacts(request);
      // Before any cryptography, and again when it decides.
      if (call.gateId !== null) findGate(this.#deps.state, call.gateId, call.caller);
      const passport = this.#deps.verifier.known(token);
      if (passport === null)
        this.#deps.verifier.verify(token, (outcome) => this.#afterVerifying(call, outcome));
      else this.#conclude(call, { kind: 'verified', passport });
    } catch (error) {
      this.#answerError(call, error);
    }
  }

  /** Maybe in a later turn: the client may have gone, and whatever was looked up before has aged. */
  #afterVerifying(call: Call, outcome: TokenOutcome): void {
    if (!this.#open.isWanted(call)) return;
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

  /** One pass, and the question that it leaves. */
  #decide(call: Call): void {
    const { spool, catchUp } = this.#deps;
    if (spool.isFull) throw new ApiError('overloaded');
    if (!catchUp.mayDecide) {
      if (!catchUp.wait(() => this.#decideAgain(call))) throw new ApiError('overloaded');
      return;
    }
    const step = decideCall(this.#section, call);
    if (step === 'leases') this.#askLeases(call);
    else if (step === 'look_up') this.#lookUp(call);
    else if (step === 'settle') this.#settle(call);
    else if (step === 'later') setImmediate(() => this.#decideAgain(call));
    else if (step === 'answer') this.#answerKnown(call);
  }

  /** Who waited. A client that went away meanwhile leaves nothing behind: nothing is taken for it, and nothing recorded. */
  #decideAgain(call: Call): void {
    if (!this.#open.isWanted(call)) return;
    try {
      this.#decide(call);
    } catch (error) {
      this.#answerError(call, error);
    }
  }

  /** Everything that it lacks at once: money and requests. One that waits for a person needs a request to be left, and takes none. */
  #askLeases(call: Call): void {
    const { decision, view } = madeOf(call);
    const need = permitCharge(requestOf(call), decision.amountMicroUsd);
    const { untilMs } = this.#waitingOf(call);
    this.#deps.leases.ask(must(view, 'only a passport lacks units'), need, untilMs, (outcome) =>
      this.#heardLeases(call, outcome),
    );
  }

  #heardLeases(call: Call, outcome: AskOutcome): void {
    learnOfLeases(this.#waitingOf(call), outcome);
    this.#decideAgain(call);
  }

  /** Who was refused by a limit that a copy of his may just have used up gives that one time to be on its way to the control plane. */
  #lookUp(call: Call): void {
    const settlement = lookUpOf(madeOf(call), requestOf(call));
    call.settlement = { settlement, holder: this.#deps.leases.holder, taken: null };
    if (this.#waitingOf(call).refusal === null) this.#settle(call);
    else setTimeout(() => this.#open.isWanted(call) && this.#settle(call), limits.copyPauseMs);
  }

  #settle(call: Call): void {
    const prepared = must(call.settlement, 'it was prepared by the pass that wants it');
    call.settlement = null;
    const { untilMs } = this.#waitingOf(call);
    this.#deps.settlements.settle(prepared, untilMs, (outcome) => this.#heardSettlement(call, outcome));
  }

  #heardSettlement(call: Call, outcome: SettlementOutcome): void {
    try {
      if (outcome.kind === 'committed') this.answerDecision(call);
      else if (outcome.kind === 'conflict') throw new ApiError('idempotency_conflict');
      else if (outcome.kind === 'suspended' && madeOf(call).decision.outcome === 'SUSPEND') {
        this.#answerSuspended(call, { approvalId: outcome.approval_id, expiresAtMs: outcome.expires_at_ms });
      } else {
        call.request = learnOfSettlement(this.#waitingOf(call), requestOf(call), outcome);
        this.#decideAgain(call);
      }
    } catch (error) {
      this.#answerError(call, error);
    }
  }

  /** All its waiting together is counted from its first question on. */
  #waitingOf(call: Call): Waiting {
    const { clock, quotaWaitMs = limits.quotaWaitMsMax } = this.#deps;
    call.waiting ??= new Waiting((clock.monotonic() + quotaWaitMs) as MonotonicMillis);
    return call.waiting;
  }

  answerDecision(call: Call): void {
    const made = madeOf(call);
    this.#decisions.count(made.decision);
    this.#open.answer(call, jsonReply(200, decisionJson(made.decision, made), call.requestId));
  }

  answerLost(call: Call): void {
    this.#open.answer(call, this.#errorReply(new ApiError('overloaded'), call.requestId));
  }

  /** It is attested when somebody resolves it (decisions §8). */
  #answerSuspended(call: Call, approval: NonNullable<Waiting['approval']>): void {
    const { decision, nowMs } = madeOf(call);
    this.#decisions.count(decision);
    const answered = { attestationId: null, approval, redacted: null, nowMs };
    this.#open.answer(call, jsonReply(200, decisionJson(decision, answered), call.requestId));
  }

  /** With what stands at the control plane already: the first PERMIT of its key, or the approval it waits for. */
  #answerKnown(call: Call): void {
    const { first, approval } = must(call.waiting, 'only who has asked knows');
    if (first !== null) this.#answerFirst(call, first);
    else this.#answerSuspended(call, must(approval, 'an approval that is pending has an end'));
  }

  #answerFirst(call: Call, first: FirstPermit): void {
    // Without a gate there are no PII controls.
    const pii = madeOf(call).gate?.pii ?? null;
    const redacted =
      pii?.mode === 'redact' && first.pii.length > 0
        ? this.#section.scans.spend(() => redactedOf(call, pii))
        : null;
    const answer = JSON.stringify(renderFirstPermit(first, redacted));
    this.#open.answer(call, jsonReply(200, answer, call.requestId));
  }

  #answerError(call: Call, error: unknown): void {
    this.#open.answer(call, this.#errorReply(error, call.requestId));
  }

  #errorReply(error: unknown, requestId: RequestId): Reply {
    if (error instanceof ApiError) {
      if (error.code === 'overloaded') this.shed++;
      return errorReply(error, requestId);
    }
    this.internalErrors++;
    this.#deps.logger.error({ err: error, request_id: requestId }, 'a request failed by our own fault');
    return errorReply(new ApiError('internal_error'), requestId);
  }
}

const madeOf = (call: Call): Made => must(call.made, 'a call that is answered or waits was decided');
const requestOf = (call: Call): RequestFacts => must(call.request, 'a call that was decided was parsed');

/**
 * No body counts as `{}`, so that what is missing gets named. The decoding is strict, where Node's own would replace what is no UTF-8:
 * the hash in the record must be of what the caller sent.
 */
function parseBody(body: Buffer): unknown {
  if (body.length === 0) return {};
  if (!isUtf8(body)) throw new ApiError('invalid_json', { message: 'The body is not valid UTF-8.' });
  return parseJsonText(body.toString('utf8'));
}
