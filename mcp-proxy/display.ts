import type { ApprovalDisplay } from '../clients/node/src/guard.ts';
import { canonicalJson } from '../shared/crypto/canonical-json.ts';
import { isJsonObject, type JsonObject } from '../shared/crypto/json-object.ts';
import { plainTextPattern } from '../shared/model/plain-text.ts';
import { proxyLimits } from './limits.ts';

/** A JSON pointer into the arguments, as its parts. */
export type Pointer = readonly string[];

/** Null: not a pointer to a member (RFC 6901). */
export function parsePointer(text: string): Pointer | null {
  if (!/^(?:\/(?:[^~/]|~[01])*)+$/.test(text)) return null;
  const parts = text.slice(1).split('/');
  return parts.map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
}

/**
 * A call of a tool for the person who approves it: the name, and a line for each argument. The same arguments
 * in another order show the same, because an approval is bound to what is shown. Long values are cut, which
 * can be seen; `hidden` ones are not shown at all.
 */
export const displayOf = (tool: string, args: JsonObject, hidden: readonly Pointer[]): ApprovalDisplay =>
  displayAs(`Call the tool ${plain(tool, proxyLimits.displayNameCharsMax)}`, args, hidden);

/** The same under a title of its own, for another method than a call. */
export function displayAs(title: string, args: JsonObject, hidden: readonly Pointer[]): ApprovalDisplay {
  const shown = withoutHidden(args, hidden);
  const names = Object.keys(shown).sort();
  const lines = names.slice(0, proxyLimits.displayLinesMax).map((name) => ({
    label: plain(name, proxyLimits.displayNameCharsMax) || '""',
    value: plain(textOf(shown[name]), proxyLimits.displayValueCharsMax),
  }));
  return cut(plain(title, proxyLimits.displayTitleCharsMax), lines, names.length);
}

/** As many lines as fit, and how many do not. */
function cut(title: string, lines: ApprovalDisplay['lines'], count: number): ApprovalDisplay {
  const kept: { readonly label: string; readonly value: string }[] = [];
  let bytes = Buffer.byteLength(title);
  for (const line of lines) {
    bytes += Buffer.byteLength(JSON.stringify(line));
    if (bytes > proxyLimits.displayBytesMax) break;
    kept.push(line);
  }
  const left = count - kept.length;
  const rest = left === 0 ? [] : [{ label: 'Not shown', value: `${left} more arguments` }];
  return { title, lines: [...kept, ...rest] };
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : canonicalJson(value));

/** Without characters that disguise text (contract §3), and at most so many. */
function plain(text: string, charsMax: number): string {
  const shown = plainTextPattern.test(text)
    ? text
    : Array.from(text, (char) => (plainTextPattern.test(char) ? char : '\ufffd')).join('');
  const chars = Array.from(shown);
  if (chars.length <= charsMax) return shown;
  return `${chars.slice(0, charsMax).join('')}… (${chars.length} characters)`;
}

function withoutHidden(value: JsonObject, hidden: readonly Pointer[]): JsonObject {
  const here = new Set(hidden.flatMap(([name, ...rest]) => (rest.length === 0 ? [name] : [])));
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => {
      if (here.has(name)) return [name, '[hidden]'];
      const deeper = hidden.flatMap(([first, ...rest]) => (first === name && rest.length > 0 ? [rest] : []));
      return [name, deeper.length > 0 && isJsonObject(member) ? withoutHidden(member, deeper) : member];
    }),
  );
}
