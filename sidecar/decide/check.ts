import type { RequestFacts, VerifiedPassport } from '../../shared/decision/facts.ts';
import { assert } from '../../shared/errors/assert.ts';
import type { RequestId } from '../../shared/model/ids.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import type { Span } from '../../shared/telemetry/tracer.ts';
import type { CheckCall, RequestObject } from '../../shared/wire/api/check.ts';
import type { ReceiptStatement } from '../../shared/wire/evidence/decision-receipt.ts';
import type { ProofClaim } from '../../shared/wire/sync/proof-claim.ts';
import type { RecordOwner } from '../attest/spool.ts';
import type { Shortage } from '../quota/held-view.ts';
import type { TokenOutcome } from '../verify/verifier.ts';
import type { Caller } from './callers.ts';
import type { AnswerableRequest } from './open-checks.ts';
import type { CheckResponder, DecisionReply } from './replies.ts';

/** What is known of a check before it is read. */
export interface CheckHead {
  /** May be made when it is asked for, where hardly anybody asks. */
  readonly requestId: RequestId;
  /** `keyId` null: a peer that is trusted without a key. */
  readonly caller: Pick<Caller, 'mode'> & { readonly keyId: Caller['keyId'] | null };
  /**
   * The header that the caller was found by: it is looked at again when the check is decided. Null: a peer
   * that is trusted without a key (contract §15).
   */
  readonly authorization: string | null;
  /** As in the URL, unchecked; null for `/enforce`, which may have a gate in its request. */
  readonly gateId: string | null;
  /** The header, unread; '': none. Read where something names the trace, which hardly ever happens. */
  readonly traceparent: string;
  /** The header beside it, in the same way. */
  readonly tracestate: string;
}

/** Gets a check back once the fate of its record is known. */
export interface Answerer {
  /** The record is written. */
  answerDecision(check: DecidedCheck): void;
  /** The record is lost, and the decision with it. */
  answerLost(check: DecidedCheck): void;
}

/** What a check has learned from the control plane since it was first decided. */
export interface Learned {
  /** The request with what is known of its approval. */
  known(request: RequestFacts): RequestFacts;
  /** Windows with less left in the ledger than the request needs. Null: the ledger has refused none. */
  readonly shortage: Shortage | null;
  /** The check is over. `isReadTold`: its client got what was read from the control plane. */
  end(isReadTold: boolean): void;
}

/**
 * A check, however it came. Each stage has a type, which says what is known then, and the step to the next
 * one returns the same object as that.
 *
 *     OpenCheck ──receive──> ReceivedCheck ──verified──> ReadyCheck ──decidedWith──> DecidedCheck
 *                                                           │ ^                          │
 *                                                           v │                          v
 *                                         has to ask (settle/), or is answered      its record is written:
 *                                                                                   it is answered
 */
export interface OpenCheck extends AnswerableRequest {
  readonly caller: CheckHead['caller'];
  readonly authorization: CheckHead['authorization'];
  /** From the address; the intake sets it once from the request, where the address is `/enforce`. */
  gateId: string | null;
  /** The trace context to forward and log: our span, or the context that the caller sent, unread. */
  readonly traceparent: string;
  /** As it is passed on beside `traceparent`, unread: a span of ours changes nothing in it. */
  readonly tracestate: string;
  /** Not answered yet. */
  readonly isOpen: boolean;
  /** Where this check is traced. Answers end it. */
  readonly span: Span | null;
  /** Null until verification has ended. */
  readonly token: TokenOutcome | null;
  /** Null unless it had to ask. */
  readonly learned: Learned | null;
  /** What its receipt states, where its answer has one. */
  readonly receipt: ReceiptStatement | null;
  /** The answer, once its record is written. */
  readonly decided: DecisionReply | null;
  /** It was read: `call` has its words, and `request` is what they say. */
  receive(
    call: CheckCall,
    request: RequestFacts,
    accept: ReceivedCheck['accept'],
    underShadow?: ReceivedCheck['underShadow'],
  ): ReceivedCheck;
}

/** It was read. Its token may still be being verified. */
export interface ReceivedCheck extends OpenCheck {
  /** As its caller wrote it, for scans and redacted copies. */
  readonly asked: RequestObject;
  readonly request: RequestFacts;
  /** The token, kept only where a proof of possession came with it. A bearer credential: never logged. */
  readonly shownToken: string | null;
  readonly wantsReceipt: boolean;
  /** Throws where the check does not fit its passport. */
  readonly accept: ((passport: VerifiedPassport) => void) | null;
  /** What it asks for by the routes of the gate's shadow; null: the same. */
  readonly underShadow: Pick<RequestFacts, 'permissionKey' | 'amountMicroUsd'> | null;
  /** Verification has ended. */
  verified(outcome: TokenOutcome): ReadyCheck;
}

/** Verification of its token has ended, whatever it found: it can be decided. */
export interface ReadyCheck extends ReceivedCheck {
  readonly token: TokenOutcome;
  /** Replaced by a fuller one: when it is scanned, and when more is known of its proof. */
  request: RequestFacts;
  /** The PII types of the last scan: those of the gate's version. Written by the section. */
  scannedFor: readonly string[] | null;
  /** Its use of its proof. `Proofs` sets it once, when that is verified. */
  proofClaim: ProofClaim | null;
  /** The decider sets it once, where the check has to ask. */
  learned: Learned | null;
  /** Set by who decides what is answered. */
  receipt: ReceiptStatement | null;
  /** Its record goes to the spool; `reply` is the answer once it is written. */
  decidedWith(reply: DecisionReply): DecidedCheck;
}

/** It owns its record itself: two closures for each would be garbage. */
export interface DecidedCheck extends ReadyCheck, RecordOwner {
  readonly decided: DecisionReply;
}

/** Whether verification has ended. */
export const isReady = (check: ReceivedCheck): check is ReadyCheck => check.token !== null;

/** The class of all stages, with all of their fields: a check is one object of one shape to its end. */
export class Check implements OpenCheck {
  readonly responder: CheckResponder;
  /** Its deadline counts from here. */
  readonly openedAtMs: MonotonicMillis;
  readonly caller: CheckHead['caller'];
  readonly authorization: CheckHead['authorization'];
  readonly span: Span | null;
  gateId: string | null;
  asked: RequestObject | null = null;
  request: RequestFacts | null = null;
  scannedFor: readonly string[] | null = null;
  shownToken: string | null = null;
  proofClaim: ProofClaim | null = null;
  token: TokenOutcome | null = null;
  accept: ReceivedCheck['accept'] = null;
  underShadow: ReceivedCheck['underShadow'] = null;
  learned: Learned | null = null;
  wantsReceipt = false;
  receipt: ReceiptStatement | null = null;
  decided: DecisionReply | null = null;
  place = -1;
  readonly #answerer: Answerer;
  readonly #head: CheckHead;

  constructor(
    answerer: Answerer,
    head: CheckHead,
    responder: CheckResponder,
    openedAtMs: MonotonicMillis,
    span: Span | null,
  ) {
    this.responder = responder;
    this.openedAtMs = openedAtMs;
    this.caller = head.caller;
    this.authorization = head.authorization;
    this.span = span;
    this.gateId = head.gateId;
    this.#answerer = answerer;
    this.#head = head;
  }

  get requestId(): RequestId {
    return this.#head.requestId;
  }

  get traceparent(): string {
    return this.span?.trace.traceparent ?? this.#head.traceparent;
  }

  get tracestate(): string {
    return this.#head.tracestate;
  }

  get isOpen(): boolean {
    return this.place !== -1;
  }

  receive(
    call: CheckCall,
    request: RequestFacts,
    accept: ReceivedCheck['accept'],
    underShadow: ReceivedCheck['underShadow'] = null,
  ): ReceivedCheck {
    assert(this.request === null, 'a check is read once');
    this.asked = call.request;
    this.request = request;
    if (request.proof.kind !== 'none') this.shownToken = call.passport;
    this.wantsReceipt = call.request['receipt'] === true;
    this.accept = accept;
    this.underShadow = underShadow;
    return this as ReceivedCheck;
  }

  verified(outcome: TokenOutcome): ReadyCheck {
    assert(this.request !== null, 'a check is read before its token is verified');
    assert(this.token === null, 'a token is verified once');
    this.token = outcome;
    return this as ReadyCheck;
  }

  decidedWith(reply: DecisionReply): DecidedCheck {
    assert(this.token !== null, 'a check is decided when verification has ended');
    assert(this.decided === null, 'a check has one record');
    this.decided = reply;
    return this as DecidedCheck;
  }

  onWritten(this: Check & DecidedCheck): void {
    this.#answerer.answerDecision(this);
  }

  onFailed(this: Check & DecidedCheck): void {
    this.#answerer.answerLost(this);
  }
}
