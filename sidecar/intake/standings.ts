import { type Static, Type } from 'typebox';
import { checkFreshness } from '../../shared/decision/check-freshness.ts';
import { checkIssuer } from '../../shared/decision/check-issuer.ts';
import { checkPassport } from '../../shared/decision/check-passport.ts';
import type { CompiledGate } from '../../shared/decision/compile-gate.ts';
import type { VerifiedPassport } from '../../shared/decision/facts.ts';
import { reasons } from '../../shared/decision/reasons.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { DecisionReason } from '../../shared/model/decision.ts';
import type { RequestId } from '../../shared/model/ids.ts';
import type { MonotonicMillis, UnixMillis } from '../../shared/model/time.ts';
import { bodyReader } from '../../shared/wire/api/body.ts';
import { closed, nullable } from '../../shared/wire/api/fields.ts';
import { assertLossless, assertSafeJson } from '../../shared/wire/api/json.ts';
import type { Answers } from '../decide/answers.ts';
import { jsonReply } from '../decide/replies.ts';
import { type EnforcementState, findGate } from '../decide/section.ts';
import type { BodyHandler, RequestHead, Responder } from '../http/server.ts';
import type { CatchUp } from '../replica/catch-up.ts';
import { isStill, type PassportVerifier } from '../verify/verifier.ts';
import type { Intake } from './intake.ts';
import { intakeLimits } from './limits.ts';
import { parseUncheckedBody } from './read-check.ts';

export interface StandingsDeps {
  readonly intake: Pick<Intake, 'admit' | 'moment'>;
  readonly replica: EnforcementState;
  readonly verifier: Pick<PassportVerifier, 'known' | 'verify'>;
  readonly catchUp: Pick<CatchUp, 'mayDecideAt' | 'wait'>;
  readonly answers: Pick<Answers, 'failure'>;
}

const StandingQuestion = closed({
  passport: Type.String(),
  wait_ms: Type.Optional(nullable(Type.Integer({ minimum: 0, maximum: intakeLimits.standingWaitMsMax }))),
});
const readQuestion = bodyReader(StandingQuestion);

/** Somebody who asks whether a passport stands. */
interface Asker extends Pick<RequestHead, 'authorization' | 'traceparent'> {
  readonly gateId: string;
  readonly requestId: RequestId;
  readonly token: string;
  readonly responder: Responder;
  /** A passport that stands is answered then, or when it has ended. */
  readonly waitsUntilMs: MonotonicMillis;
}

/**
 * Whether a passport stands at a gate (contract §16): the checks of a decision that look at the passport
 * alone. Nothing is decided, counted or recorded. A caller may wait for the end of one that stands.
 */
export class Standings {
  readonly #deps: StandingsDeps;
  #waiting: Asker[] = [];
  #tick: NodeJS.Timeout | null = null;
  /** Of the state that those who wait were last held against. */
  #version = -1;
  #lookedAtMs = Number.NEGATIVE_INFINITY;
  #isStopping = false;

  constructor(deps: StandingsDeps) {
    this.#deps = deps;
  }

  /** `POST /v1/gates/:id/standing`. Throws ApiError for a caller that is not served, before the body. */
  take(
    { authorization, traceparent }: Pick<RequestHead, 'authorization' | 'traceparent'>,
    { gateId, requestId, nowMs }: Pick<Asker, 'gateId' | 'requestId'> & { readonly nowMs: UnixMillis },
  ): BodyHandler {
    const { intake, answers } = this.#deps;
    intake.admit(authorization, nowMs);
    return (body, responder) => {
      try {
        const { value, text } = parseUncheckedBody(body);
        assertSafeJson(value);
        assertLossless(text, value);
        const { passport: token, wait_ms }: Static<typeof StandingQuestion> = readQuestion(value);
        const waitsUntilMs = (intake.moment().monotonicMs + (wait_ms ?? 0)) as MonotonicMillis;
        this.#ask({ authorization, traceparent, gateId, requestId, token, responder, waitsUntilMs });
      } catch (error) {
        responder.reply(answers.failure(error, requestId, traceparent));
      }
    };
  }

  /** Everybody who waits is answered, and nobody waits any more. */
  stop(): void {
    this.#isStopping = true;
    this.#look();
  }

  /** Answers, now or once the token is verified, or keeps the asker waiting. Never throws. */
  #ask(asker: Asker): void {
    const { intake, replica, verifier, catchUp, answers } = this.#deps;
    const { responder, requestId, traceparent } = asker;
    try {
      const { nowMs, monotonicMs } = intake.moment();
      const { mode } = intake.admit(asker.authorization, nowMs);
      if (!catchUp.mayDecideAt(monotonicMs)) {
        if (catchUp.wait(() => this.#ask(asker))) return;
        throw new ApiError('overloaded');
      }
      const gate = findGate(replica, asker.gateId, { mode });
      const issuers = replica.issuersAt(gate);
      const own = verifier.known(asker.token);
      const isOurs = own === null || own.source === null || issuers.name === '';
      const known = isOurs ? own : verifier.known(asker.token, issuers.name);
      if (known !== null && isStill(known, mode)) this.#settle(asker, gate, known);
      else
        verifier.verify(asker.token, { mode, issuers }, (outcome) => {
          if (outcome.kind === 'verified') this.#settle(asker, gate, outcome.passport);
          else if (outcome.kind === 'refused') reply(asker, outcome.reason, null);
          else responder.reply(answers.failure(new ApiError('overloaded'), requestId, traceparent));
        });
    } catch (error) {
      responder.reply(answers.failure(error, requestId, traceparent));
    }
  }

  #settle(asker: Asker, gate: CompiledGate, passport: VerifiedPassport): void {
    const { nowMs, monotonicMs } = this.#deps.intake.moment();
    const standing = this.#deps.replica.standing(passport, monotonicMs);
    const refusal =
      checkPassport(passport, standing, gate, nowMs) ??
      (gate.stateAgeMsMax === null ? null : checkFreshness(standing, gate.stateAgeMsMax)) ??
      checkIssuer(gate, passport, standing);
    // More than may wait are answered at once.
    const mayWait = !this.#isStopping && this.#waiting.length < intakeLimits.standingWaitersMax;
    if (refusal !== null || !mayWait || monotonicMs >= asker.waitsUntilMs) {
      reply(asker, refusal, passport);
      return;
    }
    this.#waiting.push(asker);
    this.#tick ??= setInterval(() => this.#lookIfChanged(), intakeLimits.standingLookMs);
  }

  /** After each change of the state, and in between for what ends by time. */
  #lookIfChanged(): void {
    const { version } = this.#deps.replica;
    const { monotonicMs } = this.#deps.intake.moment();
    const isDue = monotonicMs - this.#lookedAtMs >= intakeLimits.standingTimesMs;
    if (version !== this.#version || isDue) this.#look();
    this.#version = version;
  }

  #look(): void {
    this.#lookedAtMs = this.#deps.intake.moment().monotonicMs;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const asker of waiting) if (!asker.responder.isAborted) this.#ask(asker);
    if (this.#waiting.length > 0 || this.#tick === null) return;
    clearInterval(this.#tick);
    this.#tick = null;
  }
}

/** `reason`: why it does not stand. `passport`: null where the token is none. */
function reply(
  { responder, requestId }: Asker,
  reason: DecisionReason | null,
  passport: VerifiedPassport | null,
): void {
  const { detail, retryable } = reason === null ? { detail: null, retryable: false } : reasons[reason];
  const answer = {
    stands: reason === null,
    reason,
    detail,
    retryable,
    passport_id: passport?.passportId ?? null,
    agent_id: passport?.agentId ?? null,
    account_id: passport?.accountId ?? null,
    // Its issuer is one of others: agents are told apart by their passports then, and not by their names.
    federated: passport !== null && passport.source !== null,
  };
  responder.reply(jsonReply(200, JSON.stringify(answer), requestId));
}
