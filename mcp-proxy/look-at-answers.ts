import { isJsonObject, type JsonObject } from '../shared/crypto/json-object.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import { searchAnswer } from './answer-data.ts';
import { findFaults } from './find-ambiguity.ts';
import { type CallGuard, refusedCode, type Shown, taskNotSettled } from './guard-calls.ts';
import { guardedMethod, serverMethods } from './guarded-methods.ts';
import { hideUnpermitted } from './hide-unpermitted.ts';
import { markUntrusted, untrustedMeta } from './mark-untrusted.ts';
import { isLater, type OpenRequests } from './open-requests.ts';
import type { ShownTools } from './permitted-tools.ts';
import { errorMessage, faultOfServer } from './read-messages.ts';
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
  /** What its client waits for, which answers settle. */
  readonly open: OpenRequests;
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

const ofServer = ['capabilities', 'instructions', 'protocolVersion', 'serverInfo', 'supportedVersions'];
/** Members of answers that hold no data of the server's users: what they say is pinned, or its own. */
const unsearched: ReadonlyMap<string, readonly string[]> = new Map([
  ['initialize', ofServer],
  ['server/discover', ofServer],
  ['tools/list', ['tools', 'nextCursor']],
]);

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
    const why = fault === null ? null : `its JSON can be read in two ways: ${fault}`;
    const looked: LookedMessage[] = [];
    // In their order: a list that follows a notification is looked at after it.
    for (const message of messages) {
      const withheld = why ?? faultOfServer(message);
      if (withheld !== null) looked.push(this.#withhold(message, withheld, context));
      else looked.push(await this.#lookAtOne(message as JsonObject, context, hasInexactNumber));
    }
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

  /** A client could read another message than was looked at. Who waits for it gets an error. */
  #withhold(message: unknown, why: string, { open }: AnswerContext): LookedMessage {
    this.#options.logger.warn({ why }, 'a message of the MCP server is left out');
    if (!isJsonObject(message)) return { message: null, toServer: null };
    const { id, method } = message;
    const isAnswer = method === undefined || 'result' in message || 'error' in message;
    if (!isAnswer || (typeof id !== 'string' && typeof id !== 'number'))
      return { message: null, toServer: null };
    open.take(id);
    return { message: refusal(id, why), toServer: null };
  }

  async #lookAtOne(
    message: JsonObject,
    context: AnswerContext,
    hasInexactNumber: boolean,
  ): Promise<LookedMessage> {
    const { id, method, result } = message;
    if (method === 'notifications/tools/list_changed') this.#options.pins.views.change(context.view);
    if (typeof method === 'string') return this.#lookAtRequest(message, context);
    const request = context.open.take(id);
    // It settles nothing: the hold ends by itself.
    if (request !== null && request.held !== null && isLater(result)) {
      return { message: refusal(id, laterSettles, { reason: taskNotSettled }), toServer: null };
    }
    if (request !== null) context.open.settle(request, message);
    const search = { method: request?.method, hasInexactNumber };
    if (!isJsonObject(result)) return this.#searched(message, 'error', search);
    const refused = await this.#refusedInputs(result, context);
    if (refused !== null) return { message: { ...envelopeOf(message), error: refused }, toServer: null };
    const listed = await this.#listed(withoutOwnMeta(result), context);
    const shown = listed === result ? message : { ...message, result: listed };
    return this.#searched(shown, 'result', search);
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
    const search = { method: undefined, hasInexactNumber: false };
    const { message: searched, toServer } = this.#searched(message, 'params', search);
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

  /** `method`: of the request that is answered; undefined: not known, or the message is no answer. */
  #searched(
    message: JsonObject,
    member: 'result' | 'error' | 'params',
    { method, hasInexactNumber }: { readonly method: string | undefined; readonly hasInexactNumber: boolean },
  ): LookedMessage {
    const value = (message[member] ?? {}) as JsonObject;
    const left = member === 'result' ? (unsearched.get(method ?? '') ?? []) : [];
    const own = Object.entries(value).filter(([name]) => left.includes(name));
    const rest = { ...value, ...Object.fromEntries(own.map(([name]) => [name, null])) };
    const searched = searchAnswer(rest, this.#options.pins.piiControls);
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
    const kept = searched.kind === 'redacted' ? { ...searched.value, ...Object.fromEntries(own) } : value;
    const shown = member === 'result' ? { ...kept, _meta: { ...metaOf(kept), [piiMeta]: findings } } : kept;
    // A recorded request of the server stays as it is.
    const isSame = searched.kind === 'found' && member !== 'result';
    return { message: isSame ? message : { ...message, [member]: shown }, toServer: null };
  }
}

const laterSettles =
  'it only says that the result comes later, and what this tool comes to is settled by its answer';
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
