import { isJsonObject } from '../shared/crypto/json-object.ts';
import { proxyLimits } from './limits.ts';

/** Ids of requests as JSON, as their sender wrote them: one of 19 digits is no double. */
export interface WrittenIds {
  readonly ids: readonly string[];
  readonly isBatch: boolean;
}

const none: WrittenIds = { ids: [], isBatch: false };

/**
 * The ids under which a client waits for answers to this text, however ambiguous the rest of it is. Without
 * those of answers, which are ids of the server, and of messages that have two.
 */
export function writtenIds(bytes: Uint8Array): WrittenIds {
  // Not as strict as what passes a message on: an id is found beside a byte that is not UTF-8, too.
  const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
  const json = parse(text);
  const isBatch = Array.isArray(json);
  const messages = (isBatch ? json : [json]).filter(isJsonObject);
  if (messages.length > proxyLimits.batchMessagesMax) return none;
  const written = membersCalledId(text, isBatch ? 2 : 1);
  const ids = messages.flatMap((message, at) => {
    const [id, ...others] = written[at] ?? [];
    const isRequest = typeof message['method'] === 'string' && id !== undefined && others.length === 0;
    return isRequest && /^["\d-]/.test(id) ? [id] : [];
  });
  return { ids, isBatch };
}

/** Of a message that is too long to be kept: where clients write its id, before or behind all else. */
export function idAtAnEnd(head: Buffer, tail: Buffer): WrittenIds {
  const id = '("(?:[^"\\\\]|\\\\.){0,64}"|-?\\d{1,20})';
  const first = new RegExp(`^\\s*\\{(?:\\s*"jsonrpc"\\s*:\\s*"2\\.0"\\s*,)?\\s*"id"\\s*:\\s*${id}\\s*,`);
  const last = new RegExp(`,\\s*"id"\\s*:\\s*${id}\\s*(?:,\\s*"jsonrpc"\\s*:\\s*"2\\.0"\\s*)?\\}\\s*$`);
  const found = first.exec(head.toString('utf8'))?.[1] ?? last.exec(tail.toString('utf8'))?.[1];
  return found === undefined ? none : { ids: [found], isBatch: false };
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
