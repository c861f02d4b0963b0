import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../../', import.meta.url));

/** A block of a page that a reader pastes into a shell. */
export interface ShellBlock {
  readonly line: number;
  readonly text: string;
  /** Why no test can run it: the comment `<!-- not run: … -->` before it. Null: it is run. */
  readonly notRun: string | null;
  /** Names of the members of the answer that the page shows below it. */
  readonly shown: readonly string[];
}

export interface Page {
  readonly path: string;
  /** The page whose commands come first: the comment `<!-- needs: … -->`. */
  readonly needs: string | null;
  readonly blocks: readonly ShellBlock[];
}

/** How a line begins that is pasted into a shell, in a block that does not say its language. */
const command =
  /^(?:[A-Z_]+=|(?:export|curl|npx|npm|node|agent-trust|docker|pip|python3|claude|cat|sed|git|psql|systemctl|sudo|apt|kubectl) )/;

/** The fenced blocks of shells, and the indented ones that begin with a command. */
export function readPage(path: string): Page {
  const lines = readFileSync(`${root}${path}`, 'utf8').split('\n');
  const blocks: ShellBlock[] = [];
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at] ?? '';
    const found = /^```(?:\w*)$/.test(line) ? fenced(lines, at) : indented(lines, at);
    if (found === null) continue;
    const before = lines.slice(0, at).findLast((each) => each.trim() !== '') ?? '';
    const notRun = /^\s*<!-- not run: (.+) -->$/.exec(before)?.[1] ?? null;
    if (found.isShell)
      blocks.push({ line: at + 1, text: found.text, notRun, shown: shownBelow(lines, found.end) });
    at = found.end - 1;
  }
  const needs = /<!-- needs: (\S+) -->/.exec(lines.join('\n'))?.[1] ?? null;
  return { path, needs, blocks };
}

interface Found {
  readonly text: string;
  readonly isShell: boolean;
  /** The line after it. */
  readonly end: number;
}

function fenced(lines: readonly string[], at: number): Found {
  const last = lines.indexOf('```', at + 1);
  const text = lines.slice(at + 1, last).join('\n');
  return { text, isShell: /^```(?:sh|bash|zsh|console|shell)$/.test(lines[at] ?? ''), end: last + 1 };
}

function indented(lines: readonly string[], at: number): Found | null {
  // A mark ends where its line does: what follows it directly is a block too.
  const isFirst = /^ {4}\S/.test(lines[at] ?? '') && /^\s*(?:<!-- .* -->)?$/.test(lines[at - 1] ?? '');
  if (!isFirst) return null;
  let end = at;
  while (/^ {4}/.test(lines[end] ?? '')) end++;
  const text = lines.slice(at, end).map((each) => each.slice(4));
  const first = text.find((each) => !each.startsWith('#')) ?? '';
  return { text: text.join('\n'), isShell: command.test(first), end };
}

function shownBelow(lines: readonly string[], from: number): readonly string[] {
  const at = lines.findIndex((line, place) => place >= from && line.trim() !== '');
  const first = lines[at] ?? '';
  const found = first === '```json' ? fenced(lines, at) : /^ {4}\{/.test(first) ? indented(lines, at) : null;
  return [...new Set([...(found?.text ?? '').matchAll(/"(\w+)": ?/g)].map(([, name = '']) => name))];
}
