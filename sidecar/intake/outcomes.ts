import { isJsonObject } from '../../shared/crypto/json-object.ts';
import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import type { RecordForm } from '../../shared/model/attestation.ts';
import { isId, type RequestId } from '../../shared/model/ids.ts';
import type { Mode } from '../../shared/model/mode.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import { assertLossless, assertSafeJson } from '../../shared/wire/api/json.ts';
import { parseOutcomeBody } from '../../shared/wire/api/outcome.ts';
import type { Spool } from '../attest/spool.ts';
import type { Answers } from '../decide/answers.ts';
import { jsonReply } from '../decide/replies.ts';
import type { BodyHandler, Reply, RequestHead } from '../http/server.ts';
import type { Intake } from './intake.ts';
import { parseUncheckedBody } from './read-check.ts';

export interface OutcomesDeps {
  readonly spool: Pick<Spool, 'isFull' | 'appendOutcome'>;
  readonly state: { readonly recordForm: RecordForm };
  readonly answers: Pick<Answers, 'failure'>;
  readonly clock: Pick<Clock, 'now'>;
}

/** Where the answer to a report goes. */
interface OutcomeResponder {
  reply(reply: Reply): void;
}

/**
 * Outcomes of PERMITs (contract §19). One is answered when it is in the spool, from which it is shipped
 * exactly once. Whether it fits its PERMIT the control plane finds out: what it refuses is in its list of
 * outcomes.
 */
export class Outcomes {
  /** Taken since the start. */
  count = 0;
  readonly #deps: OutcomesDeps;

  constructor(deps: OutcomesDeps) {
    this.#deps = deps;
  }

  /** Throws ApiError for what is no outcome, and where nothing can be taken now. */
  take(
    attestationId: string,
    body: unknown,
    by: { readonly mode: Mode; readonly requestId: RequestId },
    responder: OutcomeResponder,
  ): void {
    const { spool, state, answers, clock } = this.#deps;
    if (!isId('att', attestationId)) throw new ApiError('attestation_not_found');
    const { outcome, amountMicroUsd, detail } = parseOutcomeBody(body);
    if (state.recordForm === 1)
      throw new ApiError('service_unavailable', {
        message: 'Outcomes cannot be taken yet: records are in form 1 until RECORDS_V2_AFTER_S is over.',
      });
    if (spool.isFull) throw new ApiError('overloaded');
    const entry = {
      outcome,
      attestation_id: attestationId,
      amount_micro_usd: amountMicroUsd,
      detail,
      caller_mode: by.mode,
      timestamp_ms: clock.now(),
    };
    spool.appendOutcome(entry, {
      onWritten: () => {
        this.count++;
        const taken = { attestation_id: attestationId, status: 'accepted' };
        responder.reply(jsonReply(202, JSON.stringify(taken), by.requestId));
      },
      onFailed: () => responder.reply(answers.failure(new ApiError('overloaded'), by.requestId)),
    });
  }
}

/** The members of a frame besides its id and its PERMIT. Throws for JSON that no body may hold. */
export function outcomeOfFrame(
  members: Readonly<Record<string, unknown>>,
  text: string,
): { readonly attestationId: string; readonly body: object } {
  assertSafeJson(members);
  assertLossless(text, members);
  const { id: _, attestation_id: attestationId, traceparent: _1, tracestate: _2, ...body } = members;
  if (typeof attestationId !== 'string')
    throw invalidRequest('attestation_id', 'attestation_id must be the id of a PERMIT.');
  return { attestationId, body };
}

/**
 * `POST /v1/attestations/:id/outcome`. Throws ApiError for a caller that is not served, before the body.
 */
export function takeOutcome(
  {
    intake,
    outcomes,
    answers,
  }: {
    readonly intake: Pick<Intake, 'admit'>;
    readonly outcomes: Pick<Outcomes, 'take'>;
    readonly answers: Pick<Answers, 'failure'>;
  },
  { authorization, traceparent }: Pick<RequestHead, 'authorization' | 'traceparent'>,
  about: {
    readonly attestationId: string;
    readonly requestId: RequestId;
    readonly nowMs: UnixMillis;
  },
): BodyHandler {
  const { attestationId, requestId, nowMs } = about;
  const { mode } = intake.admit(authorization, nowMs);
  return (body, responder) => {
    try {
      const { value, text } = parseUncheckedBody(body);
      if (!isJsonObject(value)) throw invalidRequest('body', 'The body must be an object.');
      assertSafeJson(value);
      assertLossless(text, value);
      outcomes.take(attestationId, value, { mode, requestId }, responder);
    } catch (error) {
      responder.reply(answers.failure(error, requestId, traceparent));
    }
  };
}
