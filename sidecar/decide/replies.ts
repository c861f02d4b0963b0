import type { Decision } from '../../shared/decision/facts.ts';
import { type ApiError, renderError } from '../../shared/errors/api-error.ts';
import type { RequestId } from '../../shared/model/ids.ts';
import {
  type Answered,
  type DecisionAnswer,
  decisionJson,
  renderDecision,
} from '../../shared/wire/api/decision.ts';
import type { Reply } from '../http/server.ts';

export const jsonReply = (status: number, body: string, requestId: RequestId): Reply => ({
  status,
  body,
  requestId,
});

export const textReply = (body: string, contentType: string, requestId: RequestId): Reply => ({
  status: 200,
  body,
  contentType,
  requestId,
});

/** An answer to a check that says what was decided. A caller in this process takes `answer` for `body`. */
export interface AnswerReply extends Reply {
  readonly answer: DecisionAnswer;
}

/** Nearly every answer is one of these, and each of its readers takes one of its forms: made when read. */
export class DecisionReply implements AnswerReply {
  readonly status = 200;
  readonly decision: Decision;
  readonly #answered: Answered;
  readonly #about: { readonly requestId: RequestId };
  #body: string | null = null;

  /** `about`: the request that is answered. */
  constructor(decision: Decision, answered: Answered, about: { readonly requestId: RequestId }) {
    this.decision = decision;
    this.#answered = answered;
    this.#about = about;
  }

  get requestId(): RequestId {
    return this.#about.requestId;
  }

  get body(): string {
    this.#body ??= decisionJson(this.decision, this.#answered);
    return this.#body;
  }

  get answer(): DecisionAnswer {
    return renderDecision(this.decision, this.#answered);
  }
}

export const answerReply = (answer: DecisionAnswer, requestId: RequestId): AnswerReply => ({
  ...jsonReply(200, JSON.stringify(answer), requestId),
  answer,
});

/** An answer that is no decision. A caller in this process takes `error` for the rest. */
export interface ErrorReply extends Reply {
  readonly error: ApiError;
}

/** The answer to a check. */
export type CheckReply = AnswerReply | ErrorReply;

/** Takes the answer: a `Responder`, or a way in that puts it in other words. */
export interface CheckResponder {
  /** As in `Responder`. */
  reply(reply: CheckReply): void;
  /** As in `Responder`. */
  readonly isAborted: boolean;
}

export function errorReply(error: ApiError, requestId: RequestId): ErrorReply {
  const headers: [string, string][] = [['cache-control', 'no-store']];
  // RFC 9110 §11.6.1: a 401 says how to authenticate.
  if (error.status === 401) headers.push(['www-authenticate', 'Bearer realm="agent-trust"']);
  if (error.retryAfterS !== null) headers.push(['retry-after', `${error.retryAfterS}`]);
  const body = JSON.stringify(renderError(error, requestId));
  return { status: error.status, body, requestId, headers, error };
}
