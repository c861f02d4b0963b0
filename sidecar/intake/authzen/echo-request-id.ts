import { givenRequestId } from '../../../shared/wire/api/authzen.ts';
import { requestIdHeader } from '../../http/respond.ts';
import type { LargeBody, Reply, Responder } from '../../http/server.ts';

/**
 * A caller that sends an `X-Request-Id` with an evaluation gets it back in the header of the answer (OpenID
 * AuthZEN Authorization API 1.0 §10.1; `givenRequestId`). Otherwise the header has the sidecar's own id, as
 * everywhere else; errors and logs name that one in any case.
 */
export function echoRequestId(header: string, outcome: Reply | LargeBody): Reply | LargeBody {
  const given = givenRequestId(header);
  if (given === null) return outcome;
  if (!('handle' in outcome)) return withId(given, outcome);
  return { ...outcome, handle: (body, responder) => outcome.handle(body, new Echoing(given, responder)) };
}

const withId = (given: string, { status, body, headers = [] }: Reply): Reply => ({
  status,
  body,
  headers: [...headers, [requestIdHeader, given]],
});

class Echoing implements Responder {
  readonly #given: string;
  readonly #responder: Responder;

  constructor(given: string, responder: Responder) {
    this.#given = given;
    this.#responder = responder;
  }

  reply(reply: Reply): void {
    this.#responder.reply(withId(this.#given, reply));
  }

  get isAborted(): boolean {
    return this.#responder.isAborted;
  }
}
