import { isUtf8 } from 'node:buffer';
import { type CompiledGate, noGate } from '../../shared/decision/compile-gate.ts';
import { decide } from '../../shared/decision/decide.ts';
import {
  type Decision,
  noWindows,
  type PassportFacts,
  type PassportStanding,
  type RequestFacts,
  type VerifiedPassport,
} from '../../shared/decision/facts.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { assert, must } from '../../shared/errors/assert.ts';
import type { DecisionReason, Outcome } from '../../shared/model/decision.ts';
import type { AccountId, AttestationId, RequestId } from '../../shared/model/ids.ts';
import type { Mode } from '../../shared/model/mode.ts';
import type { MonotonicMillis, UnixMillis } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { Random } from '../../shared/runtime/random.ts';
import { parseCheckBody, parseGateChoice, parseRequestFacts } from '../../shared/wire/check.ts';
import { decisionJson } from '../../shared/wire/decision.ts';
import { parseJsonText } from '../../shared/wire/json.ts';
import type { SpooledRecord } from '../../shared/wire/sync.ts';
import type { RecordOwner, Spool } from '../attest/spool.ts';
import type { BodyHandler, Reply, RequestHead, Responder } from '../http/server.ts';
import type { PassportVerifier, TokenOutcome } from '../verify/verifier.ts';
import { type Authenticate, authenticator, type Caller, type KnownCallers } from './callers.ts';
import { type OpenCall, type OpenCalls, openCalls } from './open-calls.ts';
import { errorReply, jsonReply } from './replies.ts';

/** What a decision reads of the replica. Every question is answered from memory, with what is in force at that moment. */
interface EnforcementState extends KnownCallers {
  /** Null until the first snapshot is loaded: nothing can be decided before. */
  readonly accountId: AccountId | null;
  /** Of the sidecar's account, not deleted; whatever text is asked for. */
  gate(gateId: string): CompiledGate | null;
  standing(passport: VerifiedPassport): PassportStanding;
}

export interface EnforcerDeps {
  readonly state: EnforcementState;
  readonly verifier: PassportVerifier;
  /** Where records go before answers do. */
  readonly spool: Pick<Spool, 'isFull' | 'append'>;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
}

interface DecisionCount {
  readonly outcome: Outcome;
  readonly reason: DecisionReason | null;
  readonly count: number;
}

/**
 * The shell around `decide`: who calls, what is asked, who the passport is, and a record before each answer
 * (decisions §5, in that order). It answers with an error of the catalogue, or with a decision whose record is in the spool file.
 */
export interface Enforcer {
  /** `gateId`: as it stands in the address, unchecked; null for `/enforce`, which may name a gate in its request. Never throws. */
  handle(head: RequestHead, gateId: string | null, requestId: RequestId): Reply | BodyHandler;
  /** Decisions whose record was written since the start, one row for each outcome and reason that occurred. */
  readonly decisions: Iterable<DecisionCount>;
  /** Requests answered 503 because the deadline passed or the spool was full. */
  readonly shed: number;
  /** Requests that failed by our own fault. */
  readonly internalErrors: number;
  readonly openCalls: number;
  stop(): void;
}

export function enforcer(deps: EnforcerDeps): Enforcer {
  return new DecidingEnforcer(deps);
}

class DecidingEnforcer implements Enforcer {
  shed = 0;
  internalErrors = 0;
  readonly #deps: EnforcerDeps;
  readonly #authenticate: Authenticate;
  readonly #open: OpenCalls;
  /** By reason, which tells the outcome too. */
  readonly #decisions = new Map<
    DecisionReason | null,
    { outcome: Outcome; reason: DecisionReason | null; count: number }
  >();

  constructor(deps: EnforcerDeps) {
    this.#deps = deps;
    this.#authenticate = authenticator(deps.state);
    this.#open = openCalls({ clock: deps.clock, onLate: () => this.shed++ });
  }

  get decisions(): Iterable<DecisionCount> {
    return this.#decisions.values();
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
      call.request = parseRequestFacts(request);
      // Before any cryptography, and again when it decides.
      if (call.gateId !== null) this.#gate(call.gateId, call.caller);
      const passport = this.#deps.verifier.known(token);
      if (passport === null) this.#deps.verifier.verify(token, (outcome) => this.#resume(call, outcome));
      else this.#conclude(call, { kind: 'verified', passport });
    } catch (error) {
      this.#open.answer(call, this.#errorReply(error, call.requestId));
    }
  }

  /** After verification, maybe in a later turn: the client may have gone, and whatever was looked up before has aged. */
  #resume(call: Call, outcome: TokenOutcome): void {
    if (!this.#open.isWanted(call)) return;
    try {
      this.#conclude(call, outcome);
    } catch (error) {
      this.#open.answer(call, this.#errorReply(error, call.requestId));
    }
  }

  #conclude(call: Call, outcome: TokenOutcome): void {
    if (outcome.kind === 'overloaded' || this.#deps.spool.isFull) throw new ApiError('overloaded');
    if (outcome.kind === 'unavailable') {
      throw new ApiError('service_unavailable', {
        message: 'Passports cannot be verified now. Try again shortly.',
      });
    }
    const request = must(call.request, 'the body is parsed before the token is verified');

    // Sync section: from here to `append` nothing is awaited, so that one moment's state decides and is recorded.
    const nowMs = this.#deps.clock.now();
    const accountId = must(this.#deps.state.accountId, 'a state that was loaded stays');
    // The key may have been deleted while the body was on its way.
    this.#authenticate(call.authorization, 'enforcement:check', nowMs);
    const gate = call.gateId === null ? null : this.#gate(call.gateId, call.caller);
    const facts = this.#factsOf(outcome);
    const decision = decide(gate ?? noGate(call.caller.mode), facts, request, noWindows, nowMs);
    assert(decision.outcome !== 'SUSPEND', 'no gate can ask for an approval yet');
    const attestationId = this.#deps.random.newId('att', nowMs);
    call.made = { decision, attestationId, nowMs };
    const about = { facts, gate, request, callerMode: call.caller.mode, accountId };
    this.#deps.spool.append(recordOf(call.made, about), call);
  }

  #factsOf(outcome: SettledToken): PassportFacts {
    if (outcome.kind === 'refused') return outcome;
    return {
      kind: 'verified',
      passport: outcome.passport,
      standing: this.#deps.state.standing(outcome.passport),
    };
  }

  /** Who asked may see only gates of his own mode; another mode's gate does not exist for him (decisions §2). */
  #gate(gateId: string, caller: Caller): CompiledGate {
    const gate = this.#deps.state.gate(gateId);
    if (gate === null || gate.mode !== caller.mode) throw new ApiError('gate_not_found');
    return gate;
  }

  /** The record of the call is written. */
  answerDecision(call: Call): void {
    const { decision, attestationId } = must(call.made, 'a record is of a decision');
    this.#count(decision);
    this.#open.answer(call, jsonReply(200, decisionJson(decision, attestationId), call.requestId));
  }

  /** The record of the call is lost, and its decision with it. */
  answerLost(call: Call): void {
    this.#open.answer(call, this.#errorReply(new ApiError('overloaded'), call.requestId));
  }

  #count(decision: Decision): void {
    const counted = this.#decisions.get(decision.reason);
    if (counted !== undefined) counted.count++;
    else
      this.#decisions.set(decision.reason, { outcome: decision.outcome, reason: decision.reason, count: 1 });
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

/** What was decided, by which record, when. */
interface Made {
  readonly decision: Decision;
  readonly attestationId: AttestationId;
  readonly nowMs: UnixMillis;
}

/** A request from its body to its answer. It owns its record itself: two closures for each would be garbage. */
class Call implements OpenCall, RecordOwner {
  readonly requestId: RequestId;
  readonly responder: Responder;
  readonly openedAtMs: MonotonicMillis;
  readonly caller: Caller;
  readonly authorization: string;
  /** From the address; set once from the request, where the address is `/enforce`. */
  gateId: string | null;
  /** Set once, when the body is parsed. */
  request: RequestFacts | null = null;
  /** Set once, just before the record is appended. */
  made: Made | null = null;
  readonly #enforcer: DecidingEnforcer;

  constructor(
    enforcer: DecidingEnforcer,
    head: Pick<Call, 'requestId' | 'caller' | 'gateId' | 'authorization'>,
    responder: Responder,
    openedAtMs: MonotonicMillis,
  ) {
    this.requestId = head.requestId;
    this.responder = responder;
    this.openedAtMs = openedAtMs;
    this.caller = head.caller;
    this.authorization = head.authorization;
    this.gateId = head.gateId;
    this.#enforcer = enforcer;
  }

  onWritten(): void {
    this.#enforcer.answerDecision(this);
  }

  onFailed(): void {
    this.#enforcer.answerLost(this);
  }
}

/** A token about which something is known. */
type SettledToken = Extract<TokenOutcome, { kind: 'refused' | 'verified' }>;

/**
 * The record of a decision, in the chain of the passport if its token verified, else of the gate, else of the account: a made-up
 * token must not write into the chain of the passport it names (decisions §9). A key that was found to be compromised after its token
 * was remembered has verified nothing either.
 */
function recordOf(
  made: Made,
  about: {
    readonly facts: PassportFacts;
    readonly gate: CompiledGate | null;
    readonly request: RequestFacts;
    readonly callerMode: Mode;
    readonly accountId: AccountId;
  },
): SpooledRecord {
  const { decision } = made;
  const passport =
    about.facts.kind === 'verified' && decision.reason !== 'passport_unknown_key'
      ? about.facts.passport
      : null;
  const gateId = about.gate?.gateId ?? null;
  return {
    id: made.attestationId,
    chain_id: passport?.passportId ?? gateId ?? about.accountId,
    passport_id: passport?.passportId ?? null,
    gate_id: gateId,
    decision: decision.outcome,
    reason: decision.reason,
    request_hash: about.request.requestHash,
    permission_key: about.request.permissionKey,
    amount_micro_usd: decision.amountMicroUsd,
    constraints_evaluated: decision.evaluated,
    pii: noFindings,
    timestamp_ms: made.nowMs,
    token_hash: passport?.tokenHash ?? null,
    caller_mode: about.callerMode,
  };
}

const noFindings: SpooledRecord['pii'] = [];

/**
 * No body counts as `{}`, so that what is missing gets named. The decoding is strict, where Node's own would replace what is no UTF-8:
 * the hash in the record must be of what the caller sent.
 */
function parseBody(body: Buffer): unknown {
  if (body.length === 0) return {};
  if (!isUtf8(body)) throw new ApiError('invalid_json', { message: 'The body is not valid UTF-8.' });
  return parseJsonText(body.toString('utf8'));
}
