import type { RequestFacts, VerifiedPassport } from '../../shared/decision/facts.ts';
import type { RequestId } from '../../shared/model/ids.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import type { Span } from '../../shared/telemetry/tracer.ts';
import type { RequestObject } from '../../shared/wire/api/check.ts';
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
  answerDecision(check: Check): void;
  /** The record is lost, and the decision with it. */
  answerLost(check: Check): void;
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
 * A check from its arrival to its answer, however it came. It owns its record itself: two closures for each
 * would be garbage.
 *
 *     opened ──prepared (intake.ts)──> passport known ──section.ts──> recorded ──written──> answered
 *                                                         └──has to ask (settle/)──┘
 */
export class Check implements AnswerableRequest, RecordOwner {
  readonly responder: CheckResponder;
  /** Its deadline counts from here. */
  readonly openedAtMs: MonotonicMillis;
  readonly caller: CheckHead['caller'];
  readonly authorization: CheckHead['authorization'];
  /** From the address; set once from the request, where the address is `/enforce`. */
  gateId: string | null;
  /** As its caller wrote it, for scans and redacted copies. Set once, when it is read. */
  asked: RequestObject | null = null;
  /** What was read of it. Replaced by a fuller one when it is scanned. */
  request: RequestFacts | null = null;
  /** The PII types of the last scan: those of the gate's version. */
  scannedFor: readonly string[] | null = null;
  /** The token, kept only where a proof of possession came with it. A bearer credential: never logged. */
  shownToken: string | null = null;
  /** Its use of its proof; set once that is verified. */
  proofClaim: ProofClaim | null = null;
  /** Set once, when verification has ended. */
  token: TokenOutcome | null = null;
  /** Throws where the check does not fit its passport. */
  accept: ((passport: VerifiedPassport) => void) | null = null;
  learned: Learned | null = null;
  /** Set once, when it is read. */
  wantsReceipt = false;
  /** What its receipt states, where its answer has one. */
  receipt: ReceiptStatement | null = null;
  /** The answer, once its record is written. */
  decided: DecisionReply | null = null;
  place = -1;
  /** Set once, where this check is traced. Answers end it. */
  span: Span | null = null;
  readonly #answerer: Answerer;
  readonly #head: CheckHead;

  constructor(answerer: Answerer, head: CheckHead, responder: CheckResponder, openedAtMs: MonotonicMillis) {
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

  /** The trace context to forward and log: our span, or the context that the caller sent, unread. */
  get traceparent(): string {
    return this.span?.trace.traceparent ?? this.#head.traceparent;
  }

  /** As it is passed on beside `traceparent`, unread: a span of ours changes nothing in it. */
  get tracestate(): string {
    return this.#head.tracestate;
  }

  /** Not answered yet. */
  get isOpen(): boolean {
    return this.place !== -1;
  }

  onWritten(): void {
    this.#answerer.answerDecision(this);
  }

  onFailed(): void {
    this.#answerer.answerLost(this);
  }
}
