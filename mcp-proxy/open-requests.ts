import { isJsonObject, type JsonObject } from '../shared/crypto/json-object.ts';
import type { CallReports, HeldCall } from './held-calls.ts';
import { proxyLimits } from './limits.ts';
import { idKeyOf } from './read-messages.ts';

/** A request of a client that waits for its answer. */
export interface OpenRequest {
  readonly key: string;
  readonly method: string;
  /** A call whose amount is held; its answer settles it. */
  held: HeldCall | null;
}

/**
 * The requests of one session that wait for answers; without a session, those of one HTTP request, and of a
 * program, all of its client's. Ids are chosen by the client, and one that is in flight is not taken again:
 * what an answer settles, and how it is looked at, belongs to its request. None is forgotten for another.
 *
 *     begin ──> open ──answered, withheld, or its exchange is over──> gone
 */
export class OpenRequests {
  readonly #reports: CallReports;
  readonly #requests = new Map<string, OpenRequest>();

  constructor(reports: CallReports) {
    this.#reports = reports;
  }

  /** Null: its id is in flight, or too many requests are. */
  begin({ id, method }: JsonObject): OpenRequest | null {
    const key = idKeyOf(id);
    if (this.#requests.has(key) || this.#requests.size >= proxyLimits.openMethodsMax) return null;
    const request: OpenRequest = { key, method: String(method), held: null };
    this.#requests.set(key, request);
    return request;
  }

  /** The request of this id, which is open no more. What it holds is not settled by that. */
  take(id: unknown): OpenRequest | null {
    const request = this.#requests.get(idKeyOf(id)) ?? null;
    if (request !== null) this.#requests.delete(request.key);
    return request;
  }

  /** An answer. An error of any kind is `failed`, and so is one that asks for more input. */
  settle(request: OpenRequest, { result }: JsonObject): void {
    const isServed = isJsonObject(result) && result['isError'] !== true && !asksAgain(result);
    this.#report(request, isServed ? 'served' : 'failed', isServed ? result : {});
  }

  /** Without an answer. `ended` null: its hold ends by itself. `isOpen`: an answer may still come. */
  end(request: OpenRequest, ended: 'failed' | 'left' | null, isOpen = false): void {
    if (ended !== null) this.#report(request, ended, {});
    if (!isOpen && this.#requests.get(request.key) === request) this.#requests.delete(request.key);
  }

  endAll(ended: 'failed' | 'left'): void {
    for (const request of this.#requests.values()) this.end(request, ended);
  }

  #report(request: OpenRequest, ended: 'served' | 'failed' | 'left', answer: JsonObject): void {
    if (request.held !== null) this.#reports.send(request.held, ended, answer);
    request.held = null;
  }
}

/** For more input, or for the same request once more with its `requestState` alone. */
const asksAgain = ({ inputRequests, resultType }: JsonObject): boolean =>
  isJsonObject(inputRequests) || resultType === 'input_required';

/** A result that is none yet (protocol revisions from 2025-11-25 on): what the call came to is not known. */
export const isLater = (result: unknown): boolean =>
  isJsonObject(result) && (isJsonObject(result['task']) || result['resultType'] === 'task');
