import type { JsonObject } from '../shared/crypto/json-object.ts';
import { type Asked, type CallGuard, type GuardAnswer, refusedCode, type Shown } from './guard-calls.ts';
import { clientMethods, guardedMethod } from './guarded-methods.ts';
import type { HeldCall } from './held-calls.ts';
import type { OpenRequest, OpenRequests } from './open-requests.ts';
import {
  type DecidedMessage,
  errorMessage,
  invalidRequest,
  isDecided,
  isRequest,
  isToolCall,
} from './read-messages.ts';
import type { PinRefusal, ToolPins } from './tool-pins.ts';

/** Who sent a message, and how. */
export interface Sender {
  readonly shown: Shown;
  /** The client, as `ToolViews` tells clients apart. */
  readonly view: string;
  readonly carrier?: Asked['carrier'];
  /** Where its requests wait for their answers. */
  readonly open: OpenRequests;
}

/** A message of a client, decided. */
export interface AdmittedMessage {
  readonly message: JsonObject;
  readonly open: OpenRequest | null;
  readonly refused: RequestRefusal | null;
}

/** A request that does not go to the server. */
export interface RequestRefusal extends Pick<GuardAnswer, 'invalidToken'> {
  /** For the client. */
  readonly message: JsonObject;
}

/**
 * Decides what a client asks: first whether the tool is as it was pinned, which costs nothing, then what the
 * gate says.
 */
export class RequestGuard {
  readonly #guard: CallGuard;
  readonly #pins: ToolPins;

  constructor({ guard, pins }: { readonly guard: CallGuard; readonly pins: ToolPins }) {
    this.#guard = guard;
    this.#pins = pins;
  }

  /**
   * What becomes of a message. `refused`: the answer to the client; null: it may go to the server. `open`: it
   * waits for an answer.
   */
  async admit(message: JsonObject, sender: Sender): Promise<AdmittedMessage> {
    if (!isRequest(message)) return { message, open: null, refused: null };
    const open = sender.open.begin(message);
    if (open === null) {
      const answer = errorMessage(message['id'], invalidRequest, inFlight);
      return { message, open, refused: { message: answer, invalidToken: null } };
    }
    const refused = isDecided(message) ? await this.#decide(message, sender, open) : null;
    if (refused === null) return { message, open, refused };
    sender.open.end(open, 'failed');
    const { answer, invalidToken } = refused;
    return {
      message,
      open,
      refused: { message: { jsonrpc: '2.0', id: message['id'], ...answer }, invalidToken },
    };
  }

  async #decide(
    message: JsonObject & DecidedMessage,
    { shown, view, carrier }: Sender,
    open: OpenRequest,
  ): Promise<GuardAnswer | null> {
    const { method, params } = message;
    if (!isToolCall(message)) {
      return this.#guard({ method, params, as: guardedMethod(clientMethods, message), carrier }, shown);
    }
    const { name } = message.params;
    const refused = await this.#pins.refusalOf(view, name);
    if (refused !== null) return withheld(refused);
    const onHeld = (call: HeldCall) => {
      open.held = call;
    };
    const answer = await this.#guard({ method, params, as: null, carrier, onHeld }, shown);
    if (answer !== null) return answer;
    // The server may have shown another tool meanwhile.
    const late = this.#pins.refusalNow(view, name);
    return late === null ? null : withheld(late);
  }
}

const inFlight =
  'Another request with this id waits for its answer, or too many wait. Give each request an id of its own.';

const withheld = (refusal: PinRefusal): GuardAnswer => ({
  answer: { error: errorOf(refusal) },
  invalidToken: null,
});

const errorOf = ({ reason, message, pinId, pinUrl }: PinRefusal): JsonObject => ({
  code: refusedCode,
  message: `agent-trust has refused this call, reason ${reason}: ${message}`,
  data: { reason, pin_id: pinId, pin_url: pinUrl },
});
