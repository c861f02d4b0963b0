import type { JsonObject } from '../shared/crypto/json-object.ts';
import { type Asked, type CallGuard, type GuardAnswer, refusedCode, type Shown } from './guard-calls.ts';
import { clientMethods, guardedMethod } from './guarded-methods.ts';
import type { HeldCall, HeldCalls } from './held-calls.ts';
import { type DecidedMessage, isToolCall } from './read-messages.ts';
import type { PinRefusal, ToolPins } from './tool-pins.ts';

/** Who sent a message, and how. */
export interface Sender {
  readonly shown: Shown;
  /** The client, as `ToolViews` tells clients apart. */
  readonly view: string;
  readonly carrier?: Asked['carrier'];
  /** Gets the calls that pass with a held amount. */
  readonly held: HeldCalls;
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

  /** The answer to the client; null: the request may go to the server. */
  async answerTo(message: JsonObject & DecidedMessage, sender: Sender): Promise<RequestRefusal | null> {
    const refused = await this.#decide(message, sender);
    if (refused === null) return null;
    const { answer, invalidToken } = refused;
    return { message: { jsonrpc: '2.0', id: message.id, ...answer }, invalidToken };
  }

  async #decide(
    message: JsonObject & DecidedMessage,
    { shown, view, carrier, held }: Sender,
  ): Promise<GuardAnswer | null> {
    const { method, params } = message;
    if (!isToolCall(message)) {
      return this.#guard({ method, params, as: guardedMethod(clientMethods, message), carrier }, shown);
    }
    const { name } = message.params;
    const refused = await this.#pins.refusalOf(view, name);
    if (refused !== null) return withheld(refused);
    const onHeld = (call: HeldCall) => held.begin(message.id, call);
    const answer = await this.#guard({ method, params, as: null, carrier, onHeld }, shown);
    if (answer !== null) return answer;
    // The server may have shown another tool meanwhile.
    const late = this.#pins.refusalNow(view, name);
    if (late === null) return null;
    const refusedLate = withheld(late);
    held.answered({ id: message.id, ...refusedLate.answer });
    return refusedLate;
  }
}

const withheld = (refusal: PinRefusal): GuardAnswer => ({
  answer: { error: errorOf(refusal) },
  invalidToken: null,
});

const errorOf = ({ reason, message, pinId, pinUrl }: PinRefusal): JsonObject => ({
  code: refusedCode,
  message: `agent-trust has refused this call, reason ${reason}: ${message}`,
  data: { reason, pin_id: pinId, pin_url: pinUrl },
});
