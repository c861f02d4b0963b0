import { isJsonObject } from '../../crypto/json-object.ts';
import { visible } from '../../model/plain-text.ts';

/** One place in which two definitions of a tool differ. */
export interface McpDifference {
  /** A JSON pointer (RFC 6901). */
  readonly pointer: string;
  /** JSON, with characters that disguise text escaped. Null: there is nothing. */
  readonly before: string | null;
  readonly after: string | null;
}

/** More would not be read; the whole definitions stand beside them. */
const differencesMax = 200;

/** The places in which two tools differ, in the order of their members. `null`: no tool. */
export function differencesOf(before: string | null, after: string | null): McpDifference[] {
  const found: McpDifference[] = [];
  const read = (text: string | null): unknown => (text === null ? {} : JSON.parse(text));
  compare(found, '', read(before), read(after));
  return found;
}

/** Recursion ends with the depth of the definitions, which is bounded. */
function compare(found: McpDifference[], pointer: string, before: unknown, after: unknown): void {
  if (found.length === differencesMax) return;
  if (isJsonObject(before) && isJsonObject(after)) {
    for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
      const step = name.replaceAll('~', '~0').replaceAll('/', '~1');
      const of = (value: typeof before) => (Object.hasOwn(value, name) ? value[name] : undefined);
      compare(found, `${pointer}/${step}`, of(before), of(after));
    }
    return;
  }
  const texts = { before: readable(before), after: readable(after) };
  if (texts.before !== texts.after) found.push({ pointer: escaped(pointer), ...texts });
}

const readable = (value: unknown): string | null =>
  value === undefined ? null : escaped(JSON.stringify(value, null, 2));

/** What a model reads and a person does not see: bidirectional marks, characters without a width. */
const hidden = /\p{Default_Ignorable_Code_Point}/gu;

/** Line feeds are those of the layout: JSON escapes its own. */
const escaped = (text: string): string =>
  visible(text).replaceAll(hidden, (character) => `\\u${character.charCodeAt(0).toString(16)}`);
