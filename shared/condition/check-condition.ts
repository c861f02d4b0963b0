/**
 * Room `shared/condition`: conditions of gates and passports, expressions of CEL over the facts of a decision
 * (contract §4). `check-condition.ts` makes the checked form of a source (`tokens.ts`, `parse-source.ts`,
 * `check-types.ts`), `form.ts` reads one that a peer sent, and `compile-form.ts` makes of it a function that
 * counts its steps. `reads-of.ts` names the facts that a form reads, `fact-at.ts` looks one up, and
 * `variables.ts` has what there is to read.
 */
import { checkTypes, type Declared, declaredVariables } from './check-types.ts';
import { SourceFault } from './fault.ts';
import type { CheckedForm } from './form.ts';
import { conditionLimits } from './limits.ts';
import { parseSource } from './parse-source.ts';

export interface ConditionFault {
  /** From 1. */
  readonly line: number;
  /** From 1, in characters. */
  readonly column: number;
  readonly message: string;
}

/** Never throws, whatever the source. `declared`: other variables, for tests. */
export function checkCondition(
  source: string,
  declared: Declared = declaredVariables,
): { readonly form: CheckedForm } | ConditionFault {
  const { sourceBytesMax } = conditionLimits;
  if (source.length > sourceBytesMax || new TextEncoder().encode(source).length > sourceBytesMax) {
    return { line: 1, column: 1, message: `longer than ${sourceBytesMax} bytes` };
  }
  if (!source.isWellFormed()) return { line: 1, column: 1, message: 'not Unicode' };
  try {
    const syntax = parseSource(source);
    const { node, type } = checkTypes(syntax, declared);
    if (type.kind !== 'bool' && type.kind !== 'dyn') {
      throw new SourceFault(syntax.at, `a condition is a bool, this is a ${type.kind}`);
    }
    return { form: { form: 1, expr: node } };
  } catch (error) {
    if (!(error instanceof SourceFault)) throw error;
    return { ...placeOf(source, error.at), message: error.message };
  }
}

function placeOf(source: string, at: number): { line: number; column: number } {
  const lines = source.slice(0, at).split('\n');
  return { line: lines.length, column: [...(lines.at(-1) ?? '')].length + 1 };
}

/** The fault below its line, as compilers show it. */
export function showFault(source: string, { line, column, message }: ConditionFault): string {
  const text = source.split('\n')[line - 1] ?? '';
  const before = [...text].slice(0, column - 1).map((char) => (char === '\t' ? '\t' : ' '));
  return `${line}:${column}: ${message}\n  ${text}\n  ${before.join('')}^`;
}
