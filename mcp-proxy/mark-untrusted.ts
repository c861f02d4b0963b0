import { endOfString } from '../shared/crypto/json-losses.ts';

/** In `_meta` of a result: it is data of the server, and no instruction (docs/integrations/mcp.md). */
export const untrustedMeta = 'agent-trust/untrusted-data';

/**
 * Writes the mark into the results of a JSON text, which stays as it is otherwise: numbers that no double
 * holds, escapes, order. `text` is valid, without two members of one name, and its results have no mark yet.
 */
export function markUntrusted(text: string, isBatch: boolean): string {
  let marked = '';
  let done = 0;
  for (const { at, mark } of marksIn(text, isBatch ? 2 : 1)) {
    marked += text.slice(done, at) + mark;
    done = at;
  }
  return marked + text.slice(done);
}

interface Mark {
  readonly at: number;
  readonly mark: string;
}

const own = `${JSON.stringify(untrustedMeta)}:true`;

/** `depth`: of the members of a message. Linear, without recursion and without patterns over long texts. */
function marksIn(text: string, depth: number): readonly Mark[] {
  const marks: Mark[] = [];
  let open = 0;
  let isInResult = false;
  /** Of the member whose value follows; empty elsewhere. */
  let name = '';
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at];
    if (char === '"') {
      const end = endOfString(text, at);
      const isOfInterest = open === depth || (isInResult && open === depth + 1);
      if (isOfInterest && end - at <= nameCharsMax && isBeforeColon(text, end)) {
        name = JSON.parse(text.slice(at, end));
      }
      at = end - 1;
    } else if (char === '{' || char === '[') {
      open += 1;
      const separator = isBeforeEnd(text, at + 1) ? '' : ',';
      if (char === '{' && open === depth + 1 && name === 'result') {
        isInResult = true;
        // An empty result says nothing.
        if (separator !== '') marks.push({ at: at + 1, mark: `"_meta":{${own}},` });
      } else if (char === '{' && open === depth + 2 && isInResult && name === '_meta') {
        marks.pop();
        marks.push({ at: at + 1, mark: `${own}${separator}` });
      }
      name = '';
    } else if (char === '}' || char === ']') {
      open -= 1;
      if (open <= depth) isInResult = false;
    } else if (char === ',') name = '';
  }
  return marks;
}

/** `result` and `_meta`, with each letter escaped. */
const nameCharsMax = 38;

function isBeforeColon(text: string, at: number): boolean {
  const colon = /\s*:/y;
  colon.lastIndex = at;
  return colon.test(text);
}

/** Of an empty object. */
function isBeforeEnd(text: string, at: number): boolean {
  const end = /\s*\}/y;
  end.lastIndex = at;
  return end.test(text);
}
