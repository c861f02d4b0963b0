/**
 * Room `sidecar/intake`: the way in of every check: admit, open, prepare, decide. Words in and out are in
 * `http-check.ts`, `batch.ts` and the folders `authzen`, `forward-auth` (the address of a gate where a proxy
 * asks in headers), `stream` and `in-process`. `lane.ts` has the checks of one sender in order, `turns.ts`
 * shares the event loop among senders of many; their bodies wait in `kept-bodies.ts`.
 */

import type { CompiledGate } from '../../shared/decision/compile-gate.ts';
import type { VerifiedPassport } from '../../shared/decision/facts.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { limits } from '../../shared/model/limits.ts';
import type { MonotonicMillis, UnixMillis } from '../../shared/model/time.ts';
import { type Clock, type Moment, momentOf } from '../../shared/runtime/clock.ts';
import {
  parseGateChoice,
  parseRequestFacts,
  refuseHoldWithoutGate,
  refuseOtherGate,
} from '../../shared/wire/api/check.ts';
import type { Answers } from '../decide/answers.ts';
import { type Authenticate, type Caller, refuseSuspended } from '../decide/callers.ts';
import {
  type CheckHead,
  isReady,
  type OpenCheck,
  type ReadyCheck,
  type ReceivedCheck,
} from '../decide/check.ts';
import { refuseWhereDisowned } from '../decide/refuse-where-disowned.ts';
import type { CheckResponder } from '../decide/replies.ts';
import { type EnforcementState, findGate } from '../decide/section.ts';
import type { Decider } from '../settle/decider.ts';
import { isStill, type PassportVerifier, type Place } from '../verify/verifier.ts';
import type { ReadCheck } from './read-check.ts';

export interface IntakeDeps {
  readonly state: EnforcementState;
  readonly authenticate: Authenticate;
  /** See refuseWhereDisowned. */
  readonly mustNotServe: () => string | null;
  readonly verifier: Pick<PassportVerifier, 'known' | 'verify'>;
  readonly answers: Answers;
  readonly decider: Pick<Decider, 'decide'>;
  readonly clock: Clock;
}

type WhenReady = (check: ReadyCheck) => void;

/**
 * The way of every check, however it comes (contract §5, in that order). What is different about HTTP, a
 * batch, a stream, AuthZEN, a proxy and a call in this process is words in and words out.
 *
 *     admit ──> open ──its words are read──> prepare ──ready, at once or later──> decide (settle/decider.ts)
 *
 * A sender of several checks has a lane (lane.ts), in which they are read and decided in order, in turn with
 * other senders.
 */
export class Intake {
  /** The passport of a token that verified here before. */
  readonly known: (token: string) => VerifiedPassport | null;
  readonly #deps: IntakeDeps;
  readonly #decideReady = (check: ReadyCheck): void => this.decide(check, this.moment());

  constructor(deps: IntakeDeps) {
    this.#deps = deps;
    this.known = (token) => deps.verifier.known(token);
  }

  moment(): Moment {
    return momentOf(this.#deps.clock);
  }

  /** Authenticates the caller. Throws ApiError for one that is not served. */
  admit(authorization: string, nowMs: UnixMillis): Caller {
    this.#refuseUnready();
    return this.#deps.authenticate(authorization, 'enforcement:check', nowMs);
  }

  /**
   * As `admit`, for a peer that is trusted without a key (contract §15): the gate may be of either mode, and
   * without a gate the mode is `live`.
   */
  admitPeer(gateId: string | null): CheckHead['caller'] {
    const { state } = this.#deps;
    this.#refuseUnready();
    refuseSuspended(state);
    if (gateId === null) return peers.live;
    const gate = state.gate(gateId);
    if (gate === null) throw new ApiError('gate_not_found');
    return peers[gate.mode];
  }

  #refuseUnready(): void {
    const { mustNotServe, state } = this.#deps;
    refuseWhereDisowned(mustNotServe());
    if (state.accountId !== null) return;
    throw new ApiError('service_unavailable', { message: 'This sidecar has not loaded its state yet.' });
  }

  refuseUnknownGate(gateId: string, caller: CheckHead['caller']): void {
    findGate(this.#deps.state, gateId, caller);
  }

  /**
   * A check was admitted, and came at `arrivedAtMs`: its deadline counts from there. Throws `overloaded`
   * where that is over.
   */
  open(head: CheckHead, responder: CheckResponder, arrivedAtMs: MonotonicMillis, moment: Moment): OpenCheck {
    refuseLate(arrivedAtMs, moment);
    return this.#deps.answers.open(head, responder, arrivedAtMs);
  }

  /**
   * A check was read. What cannot be decided is refused before any cryptography; null then. The check is
   * ready when this returns, or `whenReady` is called later, once. Never throws.
   */
  prepare(check: OpenCheck, read: ReadCheck, whenReady: WhenReady): ReceivedCheck | null {
    try {
      return this.#prepare(check, read, whenReady);
    } catch (error) {
      this.refuse(check, error);
      return null;
    }
  }

  #prepare(
    check: OpenCheck,
    { call, canonical, passport, accept, underShadow }: ReadCheck,
    whenReady: WhenReady,
  ): ReceivedCheck {
    const { state, verifier } = this.#deps;
    const { request } = call;
    const found = passport ?? verifier.known(call.passport);
    if (check.gateId === null) check.gateId = parseGateChoice(request);
    else refuseOtherGate(request, check.gateId);
    const facts = parseRequestFacts(request, 'request', canonical);
    refuseHoldWithoutGate(facts, check.gateId);
    const received = check.receive(call, facts, accept ?? null, underShadow ?? null);
    const gate = check.gateId === null ? null : findGate(state, check.gateId, check.caller);
    if (found !== null && found.source === null) received.verified({ kind: 'verified', passport: found });
    else this.#settleToken(received, { token: call.passport, found, gate }, whenReady);
    return received;
  }

  /** Of a token that is not known here as one of this service. `found`: what it is without a gate. */
  #settleToken(
    check: ReceivedCheck,
    of: {
      readonly token: string;
      readonly found: VerifiedPassport | null;
      readonly gate: CompiledGate | null;
    },
    whenReady: WhenReady,
  ): void {
    const { state, verifier } = this.#deps;
    const { token, gate } = of;
    const place = { mode: check.caller.mode, issuers: state.issuersAt(gate) };
    const { name } = place.issuers;
    const found = name === '' ? of.found : verifier.known(token, name);
    if (found !== null && isStill(found, place.mode)) check.verified({ kind: 'verified', passport: found });
    else this.#verify(check, { token, place }, whenReady);
  }

  #verify(
    check: ReceivedCheck,
    { token, place }: { readonly token: string; readonly place: Place },
    whenReady: WhenReady,
  ): void {
    let isPreparing = true;
    this.#deps.verifier.verify(token, place, (outcome) => {
      const ready = check.verified(outcome);
      if (!isPreparing) whenReady(ready);
    });
    isPreparing = false;
  }

  /**
   * Does nothing for a check without a client, and refuses one whose turn came after its deadline. Never
   * throws.
   */
  decide(check: ReadyCheck, moment: Moment): void {
    const { answers, decider } = this.#deps;
    if (!answers.isWanted(check)) return;
    try {
      refuseLate(check.openedAtMs, moment);
      if (check.token.kind === 'verified') check.accept?.(check.token.passport);
      decider.decide(check, moment);
    } catch (error) {
      answers.answerError(check, error);
    }
  }

  /** `prepare` and `decide`, for a check that waits for no turn. Never throws. */
  ask(check: OpenCheck, read: ReadCheck, moment: Moment): void {
    const received = this.prepare(check, read, this.#decideReady);
    if (received !== null && isReady(received)) this.decide(received, moment);
  }

  /** The check is answered with an error. */
  refuse(check: OpenCheck, error: unknown): void {
    this.#deps.answers.answerError(check, error);
  }
}

function refuseLate(arrivedAtMs: MonotonicMillis, { monotonicMs }: Moment): void {
  if (monotonicMs - arrivedAtMs >= limits.decisionDeadlineMs) throw new ApiError('overloaded');
}

const peers = { live: { mode: 'live', keyId: null }, test: { mode: 'test', keyId: null } } as const;
