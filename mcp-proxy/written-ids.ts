import { isJsonObject, type JsonObject } from '../shared/crypto/json-object.ts';
import { foldCase } from './find-ambiguity.ts';
import { proxyLimits } from './limits.ts';

/** Ids of requests as JSON, as their sender wrote them: one of 19 digits is no double. */
export interface WrittenIds {
  readonly ids: readonly string[];
  readonly isBatch: boolean;
  /** False: notifications and answers alone, as far as can be seen. Nobody waits for an answer to these. */
  readonly isAwaited: boolean;
}

const none: WrittenIds = { ids: [], isBatch: false, isAwaited: true };

/**
 * The ids under which a client waits for answers to this text, however ambiguous the rest of it is. Without
 * those of answers, which are ids of the server, and of messages that have two.
 */
export function writtenIds(bytes: Uint8Array): WrittenIds {
  // Not as strict as what passes a message on: an id is found beside a byte that is not UTF-8, too.
  const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
  const json = parse(text);
  const isBatch = Array.isArray(json);
  const all: readonly unknown[] = isBatch ? json : [json];
  const messages = all.filter(isJsonObject);
  if (messages.length > proxyLimits.batchMessagesMax) return none;
  const written = membersCalledId(text, isBatch ? 2 : 1);
  const ids = messages.flatMap((message, at) => {
    const [id, ...others] = written[at] ?? [];
    const isRequest = message['method'] !== undefined && id !== undefined && others.length === 0;
    return isRequest && /^["\d-]/.test(id) ? [id] : [];
  });
  const isAwaited = messages.length < all.length || all.length === 0 || messages.some(isRequestLike);
  return { ids, isBatch, isAwaited };
}

/** Of a client, to what the server has asked. */
const isAnswer = (message: JsonObject): boolean =>
  message['method'] === undefined && ('result' in message || 'error' in message);

/** In Go, a member in other letters is an id as well. */
const isRequestLike = (message: JsonObject): boolean =>
  !isAnswer(message) && Object.keys(message).some((name) => foldCase(name) === 'id');

const text = '"(?:[^"\\\\]|\\\\.){0,64}"';
const member = `\\s*${text}\\s*:\\s*(?:${text}|[\\w.+-]{1,20})\\s*`;
const idMember = `\\s*"id"\\s*:\\s*(${text}|-?\\d{1,20})\\s*`;
const idFirst = new RegExp(`^\\s*\\{(?:${member},)*?${idMember},`);
const idLast = new RegExp(`,${idMember}(?:,${member})*\\}\\s*$`);

/**
 * Of a message that is too long to be kept: its id, where only short members stand before or after it. What
 * has none there is taken for a notification.
 */
export function idAtAnEnd(head: Buffer, tail: Buffer): WrittenIds {
  const start = head.toString('utf8');
  const found = idFirst.exec(start)?.[1] ?? idLast.exec(tail.toString('utf8'))?.[1];
  if (found !== undefined) return { ids: [found], isBatch: false, isAwaited: true };
  return { ...none, isAwaited: !/^\s*[{[]/.test(start) };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** For each object at this depth, the values of its members `id`. `text` is valid JSON. */
function membersCalledId(text: string, depth: number): readonly (readonly string[])[] {
  const found: string[][] = [];
  let open = 0;
  const token = /"(?:[^"\\]|\\.)*"|[{}[\]]/gs;
  for (let match = token.exec(text); match !== null; match = token.exec(text)) {
    const [word] = match;
    if (word === '{' || word === '[') {
      open += 1;
      if (word === '{' && open === depth) found.push([]);
    } else if (word === '}' || word === ']') open -= 1;
    else if (open === depth) {
      const value = /\s*:\s*("(?:[^"\\]|\\.)*"|[^\s,{}[\]]*)/sy;
      value.lastIndex = token.lastIndex;
      const [, written] = value.exec(text) ?? [];
      if (written === undefined) continue;
      token.lastIndex = value.lastIndex;
      if (JSON.parse(word) === 'id') found.at(-1)?.push(written);
    }
  }
  return found;
}
