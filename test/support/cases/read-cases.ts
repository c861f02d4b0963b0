import { readdirSync, readFileSync } from 'node:fs';
import { Compile } from 'typebox/compile';
import { type Document, isNode, LineCounter, parseDocument } from 'yaml';
import { type CaseData, completed, type DecisionCase } from './decision-case.ts';

const folder = new URL('../../cases/', import.meta.url);
const validator = Compile(JSON.parse(readFileSync(new URL('case.schema.json', folder), 'utf8')));

/** All cases of test/cases, file by file in the order of their names. Throws as `parseCases` does. */
export const decisionCases: readonly DecisionCase[] = readdirSync(folder)
  .filter((name) => name.endsWith('.yaml'))
  .sort()
  .flatMap((name) => parseCases(readFileSync(new URL(name, folder), 'utf8'), `test/cases/${name}`))
  .flatMap(completed);

/**
 * The cases of one file (test/cases/README.md). Throws unless it is YAML 1.2 that fits `case.schema.json`,
 * with one line for each fault: the path, the number of the line and what is wrong there.
 */
function parseCases(text: string, path: string): readonly CaseData[] {
  const lineCounter = new LineCounter();
  const document = parseDocument(text, { lineCounter, uniqueKeys: true });
  const lineAt = (offset: number): number => lineCounter.linePos(offset).line;
  const faults = document.errors.map(
    ({ pos, message }) => `${path}:${lineAt(pos[0])}: ${message.split('\n', 1)[0]}`,
  );
  if (faults.length === 0) {
    for (const { instancePath, message } of validator.Errors(document.toJS())) {
      faults.push(`${path}:${lineAt(offsetOf(document, instancePath))}: ${instancePath} ${message}`);
    }
  }
  if (faults.length > 0) throw new Error(faults.join('\n'));
  return document.toJS({ reviver: (_key, value) => repeated(value) });
}

/** Where the value is to which a JSON pointer leads. */
function offsetOf(document: Document, pointer: string): number {
  const keys = pointer.split('/').slice(1);
  const path = keys.map((key) => (/^\d+$/.test(key) ? Number(key) : key));
  const node = path.length === 0 ? document.contents : document.getIn(path, true);
  return isNode(node) ? (node.range?.[0] ?? 0) : 0;
}

/** `{ $repeat: 'ab', times: 2 }` stands for `abab`. */
function repeated(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || !('$repeat' in value)) return value;
  const { $repeat: piece, times } = value as { readonly $repeat: string; readonly times: number };
  return piece.repeat(times);
}
