import { isJsonObject, type JsonObject } from '../shared/crypto/json-object.ts';
import { findAmbiguity, foldCase } from './find-ambiguity.ts';
import { clientMethods, exactMethods, guardedMethod } from './guarded-methods.ts';
import { proxyLimits } from './limits.ts';
import { type WrittenIds, writtenIds } from './written-ids.ts';

export const parseError = -32_700;
export const invalidRequest = -32_600;

/** A message that must not reach the server: two readers could take it for different things. */
export interface UnreadableMessage {
  readonly kind: 'unreadable';
  readonly code: typeof parseError | typeof invalidRequest;
  /** One sentence for people. Quotes nothing of the message. */
  readonly message: string;
  /** Whose answers the client waits for. */
  readonly written: WrittenIds;
}

export interface ClientMessages {
  readonly kind: 'messages';
  readonly messages: readonly JsonObject[];
  /** An array, as protocol revision 2025-03-26 has it. */
  readonly isBatch: boolean;
}

/** A `tools/call` of the right shape. */
export interface ToolCallMessage {
  readonly id: string | number;
  readonly params: JsonObject & { readonly name: string };
}

/** Any request that a gate decides on. */
export interface DecidedMessage {
  readonly id: string | number;
  readonly method: string;
  readonly params: JsonObject;
}

/**
 * Reads a client's message only if all JSON readers read it alike. So the server runs the request that the
 * gate decided on, whatever it does with duplicate members and upper case.
 */
export function readMessages(bytes: Uint8Array): ClientMessages | UnreadableMessage {
  const read = readAlike(bytes);
  return read.kind === 'messages' ? read : { ...read, written: writtenIds(bytes) };
}

type Refused = Omit<UnreadableMessage, 'written'>;

function readAlike(bytes: Uint8Array): ClientMessages | Refused {
  const value = parse(bytes);
  if ('kind' in value) return value;
  const { json } = value;
  const isBatch = Array.isArray(json);
  const messages: readonly unknown[] = isBatch ? json : [json];
  if (messages.length === 0 || messages.length > proxyLimits.batchMessagesMax) {
    return refuse(`A batch has 1 to ${proxyLimits.batchMessagesMax} messages.`);
  }
  for (const message of messages) {
    const fault = isJsonObject(message) ? faultOf(message) : 'A message is a JSON object.';
    if (fault !== null) return refuse(fault);
  }
  const ids = (messages as readonly JsonObject[]).filter(isRequest).map(({ id }) => idKeyOf(id));
  if (new Set(ids).size < ids.length) return refuse('Two requests of a batch have one id.');
  return { kind: 'messages', messages: messages as readonly JsonObject[], isBatch };
}

function parse(bytes: Uint8Array): { readonly json: unknown } | Refused {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    const json: unknown = JSON.parse(text);
    const ambiguity = findAmbiguity(text);
    return ambiguity === null ? { json } : refuse(ambiguity);
  } catch {
    // Its message would quote the text.
    return { kind: 'unreadable', code: parseError, message: 'The body is not JSON in UTF-8.' };
  }
}

const refuse = (message: string): Refused => ({
  kind: 'unreadable',
  code: invalidRequest,
  message,
});

const envelopeNames = ['jsonrpc', 'id', 'method', 'params', 'result', 'error'];
const callNames = ['name', 'arguments', '_meta'];

function faultOf(message: JsonObject): string | null {
  const { method } = message;
  const alias = misspelt(message, envelopeNames);
  if (alias !== null) return spelling(alias);
  // NUL is none of them: a reader in C ends the text there.
  if (method !== undefined && (typeof method !== 'string' || !/^[!-~]*$/.test(method))) {
    return 'The method is a text of visible ASCII characters.';
  }
  const loose = method?.toLowerCase();
  const meant = exactMethods.find((name) => name.toLowerCase() === loose && name !== method);
  if (meant !== undefined) return `The method is written "${meant}".`;
  if (method === 'tools/call') return faultOfCall(message);
  const guarded = guardedMethod(clientMethods, message);
  return guarded === null ? null : faultOfAsked(message, guarded.members);
}

/** Without an id there is no answer, but a server might still run the tool. */
function faultOfCall({ id, params }: JsonObject): string | null {
  if (typeof id !== 'string' && typeof id !== 'number') return 'tools/call is a request: it has an id.';
  if (!isJsonObject(params)) return 'The params of tools/call are an object.';
  if (typeof params['name'] !== 'string' || params['name'] === '') return 'tools/call names a tool.';
  for (const name of ['arguments', '_meta']) {
    if (!isJsonObject(params[name] ?? {})) return `${name} is an object.`;
  }
  const alias = misspelt(params, callNames);
  return alias === null ? null : spelling(alias);
}

/** As with calls: a server might act on it although it could not answer. */
function faultOfAsked({ id, method, params }: JsonObject, members: readonly string[]): string | null {
  if (typeof id !== 'string' && typeof id !== 'number') return `${method} is a request: it has an id.`;
  if (!isJsonObject(params) || !isJsonObject(params['_meta'] ?? {})) return 'params and _meta are objects.';
  const alias = misspelt(params, [...members, '_meta']);
  return alias === null ? null : spelling(alias);
}

const spelling = (name: string) => `The member "${name}" is written in lower case.`;

/** The name that one of the members has but for upper and lower case, which readers in Go take for it. */
function misspelt(members: JsonObject, names: readonly string[]): string | null {
  for (const member of Object.keys(members)) {
    const name = names.find((each) => each === foldCase(member) && each !== member);
    if (name !== undefined) return name;
  }
  return null;
}

/** Whether its client waits for an answer. */
export const isRequest = ({ id, method }: JsonObject): boolean =>
  typeof method === 'string' && (typeof id === 'string' || typeof id === 'number');

/** By which ids are compared: some readers take "1" and "01" for 1. */
export function idKeyOf(id: unknown): string {
  const number = typeof id === 'string' && id.trim() !== '' ? Number(id) : id;
  return Number.isFinite(number) ? String(number) : `"${id}`;
}

/** Why a message of the server is none that every client reads as the proxy does; null: it is one. */
export function faultOfServer(message: unknown): string | null {
  if (!isJsonObject(message)) return 'it is no JSON object';
  if (misspelt(message, envelopeNames) !== null) return 'its members are misspelt';
  const { jsonrpc = '2.0', id, method, params } = message;
  const isKnown = Object.keys(message).every((name) => envelopeNames.includes(name));
  const isSound = jsonrpc === '2.0' && (id === null || ['undefined', 'string', 'number'].includes(typeof id));
  if (!isKnown || !isSound) return 'its envelope is not that of JSON-RPC';
  const answers = ['result', 'error'].filter((name) => name in message);
  if (method !== undefined) {
    const isCall = typeof method === 'string' && isJsonObject(params ?? {}) && answers.length === 0;
    return isCall ? null : 'it is neither a request nor an answer';
  }
  const [answer] = answers;
  const isAnswer = answer !== undefined && answers.length === 1 && isJsonObject(message[answer]);
  return isAnswer && params === undefined ? null : 'it is no answer of JSON-RPC';
}

/** Whether a gate decides on it. */
export const isDecided = (message: JsonObject): message is JsonObject & DecidedMessage =>
  isToolCall(message) || guardedMethod(clientMethods, message) !== null;
export const isToolCall = (message: JsonObject): message is JsonObject & ToolCallMessage =>
  message['method'] === 'tools/call';
export const isToolList = (message: JsonObject): boolean => message['method'] === 'tools/list';

export const errorMessage = (id: unknown, code: number, message: string): JsonObject => ({
  jsonrpc: '2.0',
  id: typeof id === 'string' || typeof id === 'number' ? id : null,
  error: { code, message },
});

/** The answer to a text refused as a whole: an error for each id in it. Null: nobody waits for one. */
export function refusalText({
  code,
  message,
  written,
}: Pick<UnreadableMessage, 'message' | 'written'> & { readonly code: number }): string | null {
  if (!written.isAwaited) return null;
  const error = JSON.stringify({ code, message });
  const answers = (written.ids.length === 0 ? ['null'] : written.ids).map(
    (id) => `{"jsonrpc":"2.0","id":${id},"error":${error}}`,
  );
  return written.isBatch && written.ids.length > 0 ? `[${answers.join(',')}]` : (answers[0] ?? null);
}
