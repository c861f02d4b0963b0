import { isJsonObject, type JsonObject } from '../shared/crypto/json-object.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import { searchAnswer } from './answer-data.ts';
import { findFaults } from './find-ambiguity.ts';
import { type CallGuard, refusedCode, type Shown } from './guard-calls.ts';
import { guardedMethod, serverMethods } from './guarded-methods.ts';
import type { HeldCalls } from './held-calls.ts';
import { hideUnpermitted } from './hide-unpermitted.ts';
import { markUntrusted, untrustedMeta } from './mark-untrusted.ts';
import type { ShownTools } from './permitted-tools.ts';
import { envelopeNames, errorMessage, misspelt } from './read-messages.ts';
import type { ToolPins } from './tool-pins.ts';

/** What is needed to look at messages of a server. */
export interface AnswerGuardOptions {
  readonly guard: CallGuard;
  readonly pins: ToolPins;
  /** Null: lists are not shortened by permissions. */
  readonly shownTools: ((shown: Shown) => Promise<ShownTools>) | null;
  readonly logger: Logger;
}

/** For whom the messages are. */
export interface AnswerContext {
  readonly shown: Shown;
  /** The client, as `ToolViews` tells clients apart. */
  readonly view: string;
  /** The method of a request of the client, by its id. Undefined: not known. */
  readonly methodOf: (id: unknown) => string | undefined;
  /** The calls whose amount is held, which answers settle. */
  readonly held: HeldCalls;
}

export interface Looked {
  /** JSON for the client. Null: nothing is left. */
  readonly toClient: string | null;
  /** Refusals of what the server has asked of the client. */
  readonly toServer: readonly JsonObject[];
}

/** The same of one message: what was not changed is the message itself. */
interface LookedMessage {
  readonly message: unknown;
  readonly toServer: JsonObject | null;
}

/** Answers that hold no data of the server's users: what they say is pinned, or is the protocol's own. */
const unsearched: ReadonlySet<string> = new Set(['initialize', 'server/discover', 'ping', 'tools/list']);

/**
 * Looks at what a server sends, answers and requests alike: lists lose what the client may not use; personal
 * data is treated as the gate says; results are marked as untrusted; what the server asks of the client is
 * decided. Throws SyntaxError for what is not JSON.
 */
export class AnswerGuard {
  readonly #options: AnswerGuardOptions;

  constructor(options: AnswerGuardOptions) {
    this.#options = options;
  }

  async look(text: string, context: AnswerContext): Promise<Looked> {
    const parsed: unknown = JSON.parse(text);
    const isBatch = Array.isArray(parsed);
    const messages: readonly unknown[] = isBatch ? parsed : [parsed];
    const { fault, hasInexactNumber } = findFaults(text);
    if (fault !== null) return this.#refuseAll(messages, isBatch, fault);
    const looked: LookedMessage[] = [];
    // In their order: a list that follows a notification is looked at after it.
    for (const message of messages) looked.push(await this.#lookAtOne(message, context, hasInexactNumber));
    const toServer = looked.flatMap(({ toServer: refused }): JsonObject[] =>
      refused === null ? [] : [refused],
    );
    const kept = looked.flatMap(({ message }) => (message === null ? [] : [message]));
    if (kept.length === 0) return { toClient: null, toServer };
    const isSame = looked.every(({ message }, at) => message === messages[at]);
    if (isSame) return { toClient: markUntrusted(text, isBatch), toServer };
    const marked = kept.map(withMark);
    return { toClient: JSON.stringify(isBatch ? marked : marked[0]), toServer };
  }

  /** A client could read another message than was looked at. */
  #refuseAll(messages: readonly unknown[], isBatch: boolean, fault: string): Looked {
    this.#options.logger.warn({ fault }, 'a message of the MCP server is left out');
    const answers = messages.flatMap((message) => {
      const isAnswer = isJsonObject(message) && message['method'] === undefined && 'id' in message;
      return isAnswer ? [refusal(message['id'], `its JSON can be read in two ways: ${fault}`)] : [];
    });
    if (answers.length === 0) return { toClient: null, toServer: [] };
    return { toClient: JSON.stringify(isBatch ? answers : answers[0]), toServer: [] };
  }

  async #lookAtOne(
    message: unknown,
    context: AnswerContext,
    hasInexactNumber: boolean,
  ): Promise<LookedMessage> {
    if (!isJsonObject(message)) return { message, toServer: null };
    if (misspelt(message, envelopeNames) !== null) {
      this.#options.logger.warn({}, 'a message of the MCP server is left out: its members are misspelt');
      return { message: null, toServer: null };
    }
    const { method } = message;
    if (method === 'notifications/tools/list_changed') this.#options.pins.views.change(context.view);
    if (typeof method === 'string') return this.#lookAtRequest(message, context);
    context.held.answered(message);
    const { result } = message;
    if (!isJsonObject(result)) return this.#searched(message, 'error', context, hasInexactNumber);
    const refused = await this.#refusedInputs(result, context);
    if (refused !== null) return { message: { ...envelopeOf(message), error: refused }, toServer: null };
    const listed = await this.#listed(withoutOwnMeta(result), context);
    const shown = listed === result ? message : { ...message, result: listed };
    return this.#searched(shown, 'result', context, hasInexactNumber);
  }

  /** A request or notification of the server. */
  async #lookAtRequest(message: JsonObject, context: AnswerContext): Promise<LookedMessage> {
    const { id, method, params } = message;
    const as = guardedMethod(serverMethods, message);
    if (as !== null) {
      const error = await this.#decide(String(method), params, context);
      if (error !== null) {
        const toServer = id === undefined ? null : { jsonrpc: '2.0', id, error };
        return { message: null, toServer };
      }
    }
    const { message: searched, toServer } = this.#searched(message, 'params', context, false);
    const isRefused = searched !== null && (searched as JsonObject)['method'] === undefined;
    if (!isRefused) return { message: searched, toServer };
    return { message: null, toServer: id === undefined ? null : (searched as JsonObject) };
  }

  /** The error for what the server asks of the client; null: it may ask. */
  async #decide(method: string, params: unknown, { shown }: AnswerContext): Promise<JsonObject | null> {
    const as = guardedMethod(serverMethods, { method });
    if (as === null) return null;
    const refused = await this.#options.guard(
      { method, params: isJsonObject(params) ? params : {}, as },
      shown,
    );
    if (refused === null) return null;
    const { answer } = refused;
    return 'error' in answer ? answer.error : { code: refusedCode, message: 'agent-trust has refused this.' };
  }

  /** Protocol revision 2026-07-28 asks in the results of requests. */
  async #refusedInputs(result: JsonObject, context: AnswerContext): Promise<JsonObject | null> {
    const { inputRequests } = result;
    if (!isJsonObject(inputRequests)) return null;
    for (const asked of Object.values(inputRequests)) {
      if (!isJsonObject(asked) || typeof asked['method'] !== 'string') continue;
      const error = await this.#decide(asked['method'], asked['params'], context);
      if (error !== null) return error;
    }
    return null;
  }

  async #listed(result: JsonObject, context: AnswerContext): Promise<JsonObject> {
    const { pins, shownTools } = this.#options;
    const seen = Array.isArray(result['tools']) ? await pins.see(context.view, result) : null;
    return hideUnpermitted(result, {
      seen,
      shown: shownTools === null ? null : () => shownTools(context.shown),
    });
  }

  #searched(
    message: JsonObject,
    member: 'result' | 'error' | 'params',
    { methodOf }: AnswerContext,
    hasInexactNumber: boolean,
  ): LookedMessage {
    const value = message[member];
    const method = member === 'params' ? undefined : methodOf(message['id']);
    if (!isJsonObject(value) || (method !== undefined && unsearched.has(method))) {
      return { message, toServer: null };
    }
    const searched = searchAnswer(value, this.#options.pins.piiControls);
    if (searched.kind === 'pass') return { message, toServer: null };
    const { findings } = searched;
    this.#options.logger.warn(
      { pii: findings, method, outcome: searched.kind },
      'an answer holds personal data',
    );
    if (searched.kind === 'refused' || (searched.kind === 'redacted' && hasInexactNumber)) {
      const reason = searched.kind === 'refused' ? searched.reason : tooExact;
      return {
        message: refusal(message['id'], reason, { reason: 'pii_detected', pii: findings }),
        toServer: null,
      };
    }
    const left = searched.kind === 'redacted' ? searched.value : value;
    const shown = member === 'result' ? { ...left, _meta: { ...metaOf(left), [piiMeta]: findings } } : left;
    // A recorded request of the server stays as it is.
    const isSame = searched.kind === 'found' && member !== 'result';
    return { message: isSame ? message : { ...message, [member]: shown }, toServer: null };
  }
}

const tooExact = 'it holds personal data beside a number that is too exact to be written anew';

/** Pointers and types of what was found, never values. */
const piiMeta = 'agent-trust/pii';

/** The proxy's own members are its own: a server that sends one would speak in its name. */
function withoutOwnMeta(result: JsonObject): JsonObject {
  const meta = result['_meta'];
  if (!isJsonObject(meta)) return meta === undefined ? result : { ...result, _meta: {} };
  const kept = Object.entries(meta).filter(([name]) => !name.startsWith('agent-trust/'));
  return kept.length === Object.keys(meta).length ? result : { ...result, _meta: Object.fromEntries(kept) };
}

const metaOf = (value: JsonObject): JsonObject => (isJsonObject(value['_meta']) ? value['_meta'] : {});

function withMark(message: unknown): unknown {
  if (!isJsonObject(message) || !isJsonObject(message['result'])) return message;
  const { result } = message;
  if (Object.keys(result).length === 0) return message;
  return { ...message, result: { ...result, _meta: { ...metaOf(result), [untrustedMeta]: true } } };
}

const envelopeOf = ({ id }: JsonObject): JsonObject => ({ jsonrpc: '2.0', id });

function refusal(id: unknown, why: string, data?: JsonObject): JsonObject {
  const { error, ...envelope } = errorMessage(
    id,
    refusedCode,
    `agent-trust has withheld this answer of the MCP server: ${why}.`.replace(/\.\.$/, '.'),
  );
  return { ...envelope, error: { ...(error as JsonObject), ...(data === undefined ? {} : { data }) } };
}
