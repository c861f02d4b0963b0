import type { CompiledGate } from '../../shared/decision/compile-gate.ts';
import type { Decision, PassportFacts, RequestFacts } from '../../shared/decision/facts.ts';
import type { Run } from '../../shared/decision/run.ts';
import type { AttestationId, RequestId } from '../../shared/model/ids.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import type { RequestObject } from '../../shared/wire/check.ts';
import type { Answered } from '../../shared/wire/decision.ts';
import type { RecordOwner } from '../attest/spool.ts';
import type { HeldView, Shortage } from '../quota/held-view.ts';
import type { TokenOutcome } from '../verify/verifier.ts';
import type { Caller } from './callers.ts';
import type { AnswerableRequest } from './open-checks.ts';
import type { CheckResponder, DecisionReply } from './replies.ts';
import type { SettlementToVoid } from '../settle/settlement-voids.ts';

/** A token that was checked, with its result. */
export type CheckedToken = Extract<TokenOutcome, { kind: 'refused' | 'verified' }>;

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
  /** See needsRun. */
  readonly mayBePending: boolean;
}

/** Answers a request once it is known whether its record was written. */
export interface Answerer {
  /** The record is written. */
  answerDecision(open: OpenRequest): void;
  /** The record is lost, and the decision with it. */
  answerLost(open: OpenRequest): void;
}

/** Of a request that has to ask; most never do. */
export interface Waiting {
  readonly run: Run;
  /** All its waiting ends here, counted from its first question on. */
  readonly untilMs: MonotonicMillis;
  /** How often it has waited for what others have begun. */
  waits: number;
  /** Windows of which the ledger has less left than the request needs. Null: it has refused none. */
  shortage: Shortage | null;
  /** Voids the settlement that was sent last. Null before the first. */
  voidSettlement: (() => void) | null;
  /**
   * What voids each reading with which it may be answered; the last one counts. Empty again when it is
   * answered.
   */
  readonly readings: SettlementToVoid[];
}

/** What is known of a request before its body. */
export interface OpenRequestHead {
  /** May be made when it is asked for, where hardly anybody asks. */
  readonly requestId: RequestId;
  readonly caller: Pick<Caller, 'mode'>;
  /**
   * The header that the caller was found by: it is looked at again when the request is decided. Null: a peer
   * that is trusted without a key (contract §15).
   */
  readonly authorization: string | null;
  /** As in the URL, unchecked; null for `/enforce`, which may have a gate in its request. */
  readonly gateId: string | null;
}

/**
 * A request from its body to its answer. It owns its record itself: two closures for each would be garbage.
 */
export class OpenRequest implements AnswerableRequest, RecordOwner {
  readonly responder: CheckResponder;
  readonly openedAtMs: MonotonicMillis;
  readonly caller: OpenRequestHead['caller'];
  readonly authorization: OpenRequestHead['authorization'];
  /** From the address; set once from the request, where the address is `/enforce`. */
  gateId: string | null;
  /** As its caller wrote it, for scans and redacted copies. Set once, when the body is parsed. */
  asked: RequestObject | null = null;
  /** What was read of it. Replaced by a fuller one when it is scanned. */
  request: RequestFacts | null = null;
  /** The types for which it was scanned last: those of the gate's version. */
  scannedFor: readonly string[] | null = null;
  /** Set once, when verification has ended. */
  token: CheckedToken | null = null;
  /** By the last pass of `decideRequest`. */
  attempt: Attempt | null = null;
  waiting: Waiting | null = null;
  /** The answer, where it was permitted on the short way (plain-permits.ts). */
  permit: DecisionReply | null = null;
  place = -1;
  readonly #answerer: Answerer;
  readonly #head: OpenRequestHead;

  constructor(
    answerer: Answerer,
    head: OpenRequestHead,
    responder: CheckResponder,
    openedAtMs: MonotonicMillis,
  ) {
    this.responder = responder;
    this.openedAtMs = openedAtMs;
    this.caller = head.caller;
    this.authorization = head.authorization;
    this.gateId = head.gateId;
    this.#answerer = answerer;
    this.#head = head;
  }

  get requestId(): RequestId {
    return this.#head.requestId;
  }

  onWritten(): void {
    this.#answerer.answerDecision(this);
  }

  onFailed(): void {
    this.#answerer.answerLost(this);
  }
}
